package protoequal

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestEqual checks the results of Equal in concurrent calls.
func TestEqual(t *testing.T) {
	t.Parallel()
	spec := func(change func(s *corev1.PodSpec)) *corev1.PodSpec {
		s := &corev1.PodSpec{NodeSelector: map[string]string{"a": "1", "b": "2"}, Containers: []corev1.Container{{Name: "a", Image: "b"}}}
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		change func(s *corev1.PodSpec)
		want   bool
	}{
		"nothing":                {func(*corev1.PodSpec) {}, true},
		"an empty list":          {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{} }, true},
		"as long":                {func(s *corev1.PodSpec) { s.Containers[0].Image = "c" }, false},
		"longer":                 {func(s *corev1.PodSpec) { s.Containers[0].Image = "cc" }, false},
		"a value of a map":       {func(s *corev1.PodSpec) { s.NodeSelector["b"] = "3" }, false},
		"more than a buffer has": {func(s *corev1.PodSpec) { s.Hostname = strings.Repeat("h", 2*maxPooledSize) }, false},
	} {
		var tries sync.WaitGroup
		for range 8 {
			tries.Go(func() {
				a, b := spec(func(*corev1.PodSpec) {}), spec(c.change)
				if got := Equal(a, b); got != c.want || got && !equality.Semantic.DeepEqual(a, b) {
					t.Errorf("%s: Equal = %t, want %t", name, got, c.want)
				}
				if !Equal(b, b.DeepCopy()) {
					t.Errorf("%s: a copy differs", name)
				}
			})
		}
		tries.Wait()
	}
	text := "a"
	if Equal(&corev1.Volume{}, &text) || Equal(&text, &text) || Equal(&corev1.PodStatus{}, &corev1.PodStatus{Phase: "a"}) {
		t.Error("Equal returned true for values without a protobuf encoding, or for different values")
	}
}
