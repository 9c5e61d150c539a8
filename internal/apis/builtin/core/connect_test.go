package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContainers checks that requests for a container that is not in the pod are rejected. The check is
// necessary because the container name becomes part of a URL path.
func TestContainers(t *testing.T) {
	t.Parallel()
	pod := func(names ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		for _, name := range names {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
		}
		return p
	}
	two := pod("a", "b")
	two.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	two.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}}}
	for _, tt := range []struct {
		pod              *corev1.Pod
		asked, want, err string
	}{
		{pod("a"), "", "a", ""},
		{two, "b", "b", ""},
		{two, "i", "i", ""},
		{two, "e", "e", ""},
		{two, "", "", "a container name must be specified for pod p, choose one of: [i a b e]"},
		{pod(), "", "", "a container name must be specified for pod p"},
		{two, "../../x", "", "container ../../x is not valid for pod p"},
	} {
		got, err := containerOf(tt.pod, tt.asked)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("container for the name %q: %q, error %v; want %q, error %q", tt.asked, got, err, tt.want, tt.err)
		}
	}
}

// TestCleanPath checks that a cleaned path cannot leave its root and keeps its trailing slash.
func TestCleanPath(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"": "", "/": "/", "/x": "/x", "/x/": "/x/", "/../x": "/x", "/a//b/./c/": "/a/b/c/", "/..": "/",
	} {
		if got := cleanPath(from); got != want {
			t.Errorf("%q: %q, want %q", from, got, want)
		}
	}
}
