package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// ValidateTemplate validates a pod template. old is nil on creation.
func ValidateTemplate(f validation.Field, template, old *corev1.PodTemplateSpec) {
	var before *corev1.PodSpec
	var meta *metav1.ObjectMeta
	if old != nil {
		before, meta = &old.Spec, &old.ObjectMeta
	}
	validateTemplateMetadata(f, template, meta)
	Validate(f.Child("spec"), &template.Spec, before, Options{})
	if len(template.Spec.EphemeralContainers) > 0 {
		f.Child("spec").Child("ephemeralContainers").Forbidden("ephemeral containers not allowed in pod template")
	}
}

// validateTemplateMetadata validates the labels and annotations of a template.
func validateTemplateMetadata(f validation.Field, template *corev1.PodTemplateSpec, old *metav1.ObjectMeta) {
	f.Child("labels").Labels(template.Labels)
	f.Child("annotations").Annotations(template.Annotations)
	ValidateAnnotations(f.Child("annotations"), &template.ObjectMeta, old, &template.Spec)
}

// ValidateTemplateLabels requires that a pod selector matches the labels of a template. A nil selector matches
// no pod. An empty selector is not checked.
func ValidateTemplateLabels(f validation.Field, selector labels.Selector, template *corev1.PodTemplateSpec) {
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		f.Child("metadata").Child("labels").Invalid(template.Labels, "`selector` does not match template `labels`")
	}
}

// ValidateRestartAlways requires the restart policy Always and forbids an active deadline. of is the kind that
// contains the template, for error messages.
func ValidateRestartAlways(f validation.Field, template *corev1.PodTemplateSpec, of string) {
	spec := f.Child("spec")
	if policy := template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		validation.NotSupported(spec.Child("restartPolicy"), policy, corev1.RestartPolicyAlways)
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		spec.Child("activeDeadlineSeconds").Forbidden("activeDeadlineSeconds in " + of + " is not Supported")
	}
}
