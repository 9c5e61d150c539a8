package apps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func TestTemplateGeneration(t *testing.T) {
	t.Parallel()
	const key = appsv1.DeprecatedTemplateGeneration
	generation := func(text string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: text}}}
	}
	created := &appsv1.DaemonSet{}
	prepareDaemonSet(&builtin.Operation{Context: t.Context(), Env: &builtin.Env{}}, created)
	kept := generation("7")
	prepareDaemonSet(&builtin.Operation{Context: t.Context(), Env: &builtin.Env{}}, kept)
	same := generation("9")
	prepareDaemonSetUpdate(&builtin.Operation{Context: t.Context(), Env: &builtin.Env{}}, same, generation("2"))
	changed := &appsv1.DaemonSet{}
	changed.Spec.Template.Labels = map[string]string{"a": "b"}
	prepareDaemonSetUpdate(&builtin.Operation{Context: t.Context(), Env: &builtin.Env{}}, changed, generation("2"))
	status := &appsv1.DaemonSet{}
	prepareDaemonSetStatus(&builtin.Operation{Context: t.Context(), Env: &builtin.Env{}}, status, generation("2"))
	got := map[string]string{
		"created": created.Annotations[key], "created with one": kept.Annotations[key], "updated": same.Annotations[key],
		"updated template": changed.Annotations[key], "status": status.Annotations[key],
	}
	want := map[string]string{"created": "1", "created with one": "7", "updated": "2", "updated template": "3", "status": "2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeploymentChanged(t *testing.T) {
	t.Parallel()
	old := &appsv1.Deployment{}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"nothing":     {func(*appsv1.Deployment) {}, false},
		"labels":      {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} }, false},
		"annotations": {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "b"} }, true},
		"spec":        {func(d *appsv1.Deployment) { d.Spec.Paused = true }, true},
	} {
		changed := old.DeepCopy()
		test.change(changed)
		if got := deploymentChanged(changed, old); got != test.want {
			t.Errorf("%s: deploymentChanged = %v, want %v", name, got, test.want)
		}
	}
}
