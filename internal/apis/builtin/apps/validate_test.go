package apps

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

func faults(t *testing.T, rules func(validation.Field)) string {
	t.Helper()
	return validation.NewValidator(feature.Defaults()).Validate(t.Context(), rules).ToAggregate().Error()
}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
}

func TestDeploymentRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*appsv1.DeploymentSpec)
		want   string
	}{
		"less than no pods": {func(s *appsv1.DeploymentSpec) { *s.Replicas = -1 }, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
		"another selector":  {func(s *appsv1.DeploymentSpec) { s.Selector.MatchLabels["c"] = "d" }, "field is immutable"},
		"other labels":      {func(s *appsv1.DeploymentSpec) { s.Template.Labels = nil }, "`selector` does not match template `labels`"},
		"pods that end":     {func(s *appsv1.DeploymentSpec) { s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever }, `spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`},
	} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector(), Template: podTemplate()}}
		defaultDeployment(d)
		changed := d.DeepCopy()
		tt.change(&changed.Spec)
		if got := faults(t, func(f validation.Field) { validateDeployment(f, changed, d) }); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestClaimTemplates checks that pods have only one volume if several claim templates have the same name, and
// that the kind in a claim template is ignored.
func TestClaimTemplates(t *testing.T) {
	t.Parallel()
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100m")}},
	}}
	named := *claim.DeepCopy()
	named.Kind, named.APIVersion = "Other", "v2"
	set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		Selector: selector(), Template: podTemplate(), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim, named},
	}}
	set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	defaultStatefulSet(set)
	if got := validation.NewValidator(feature.Defaults()).Validate(t.Context(), func(f validation.Field) { validateStatefulSet(f, set, nil) }); len(got) > 0 {
		t.Errorf("faults: %v", got)
	}
	if kind := set.Spec.VolumeClaimTemplates[1].Kind; kind != "PersistentVolumeClaim" {
		t.Errorf("kind is %q", kind)
	}
	if got := statefulSetWarnings(nil, set, nil); len(got) != 2 || !strings.HasPrefix(got[0], "spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value") {
		t.Errorf("warnings: %q", got)
	}
	changed := set.DeepCopy()
	changed.Spec.PodManagementPolicy = "Other"
	if got := faults(t, func(f validation.Field) { validateStatefulSet(f, changed, set) }); !strings.Contains(got, "must be 'OrderedReady' or 'Parallel'") {
		t.Errorf("got %q", got)
	}
}
