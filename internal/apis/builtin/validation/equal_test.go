package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

func specForEqual() *corev1.PodSpec {
	return &corev1.PodSpec{
		NodeSelector: map[string]string{"a": "1", "b": "2", "c": "3"},
		Containers: []corev1.Container{{
			Name: "main", Image: "image:1",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
		}},
	}
}

// TestEqual checks that comparing encodings has the same result as reflection.
func TestEqual(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *corev1.PodSpec)
		want   bool
	}{
		"nothing":                   {func(*corev1.PodSpec) {}, true},
		"an empty list for none":    {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{} }, true},
		"an amount, written anew":   {func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits["cpu"] = resource.MustParse("1000m") }, true},
		"an amount":                 {func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits["cpu"] = resource.MustParse("2") }, false},
		"a string as long":          {func(s *corev1.PodSpec) { s.Containers[0].Image = "image:2" }, false},
		"an empty struct for none":  {func(s *corev1.PodSpec) { s.SecurityContext = &corev1.PodSecurityContext{} }, false},
		"a key of a map":            {func(s *corev1.PodSpec) { delete(s.NodeSelector, "a"); s.NodeSelector["d"] = "1" }, false},
		"more than a buffer's size": {func(s *corev1.PodSpec) { s.Hostname = strings.Repeat("h", 64<<10) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := specForEqual(), specForEqual()
			c.change(b)
			if got := Equal(a, b); got != c.want || got != equality.Semantic.DeepEqual(a, b) {
				t.Errorf("Equal is %t", got)
			}
			if got := Changed(*b, *a); got == c.want {
				t.Errorf("Changed is %t", got)
			}
			if !Equal(b, b.DeepCopy()) {
				t.Error("a copy differs")
			}
		})
	}
	if Equal(&corev1.Volume{}, &corev1.Volume{Name: "a"}) || !Equal(&corev1.Volume{}, &corev1.Volume{}) {
		t.Error("wrong result for values with at most one field")
	}
	if name, other := "a", "b"; Changed(&name, &name) || !Changed(&name, &other) || !Changed(&name, nil) {
		t.Error("wrong result for pointers")
	}
}

func BenchmarkEqual(b *testing.B) {
	one, other := specForEqual(), specForEqual()
	b.Run("encoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !Equal(one, other) {
				b.Fatal("the values are not equal")
			}
		}
	})
	b.Run("reflected", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !equality.Semantic.DeepEqual(one, other) {
				b.Fatal("the values are not equal")
			}
		}
	})
}
