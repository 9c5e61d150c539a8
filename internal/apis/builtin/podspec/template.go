package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// ValidateTemplate has the rules of what pods are made from. old is nil where it
// is new.
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

// validateTemplateMetadata has those of the rules that are not about the pods
// themselves.
func validateTemplateMetadata(f validation.Field, template *corev1.PodTemplateSpec, old *metav1.ObjectMeta) {
	f.Child("labels").Labels(template.Labels)
	f.Child("annotations").Annotations(template.Annotations)
	ValidateAnnotations(f.Child("annotations"), &template.ObjectMeta, old, &template.Spec)
}

// ValidateSelected requires that what a selector of pods looks for is what a
// template makes. A nil selector chooses none, and an empty one is not looked at.
func ValidateSelected(f validation.Field, selector labels.Selector, template *corev1.PodTemplateSpec) {
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		f.Child("metadata").Child("labels").Invalid(template.Labels, "`selector` does not match template `labels`")
	}
}

// ValidateRestartAlways requires that pods of a template go on for ever: of is the kind
// that replaces those that do not.
func ValidateRestartAlways(f validation.Field, template *corev1.PodTemplateSpec, of string) {
	spec := f.Child("spec")
	if policy := template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		validation.NotSupported(spec.Child("restartPolicy"), policy, corev1.RestartPolicyAlways)
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		spec.Child("activeDeadlineSeconds").Forbidden("activeDeadlineSeconds in " + of + " is not Supported")
	}
}
