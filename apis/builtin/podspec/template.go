package podspec

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"mainstay.dev/mainstay/apis/builtin/validation"
)

// ValidateTemplate has the rules of what pods are made from. old is nil where it
// is new.
func ValidateTemplate(f validation.Field, template, old *corev1.PodTemplateSpec) {
	var before *corev1.PodSpec
	if old != nil {
		before = &old.Spec
	}
	ValidateTemplateMetadata(f, template)
	Validate(f.Child("spec"), &template.Spec, before, Options{})
	if len(template.Spec.EphemeralContainers) > 0 {
		f.Child("spec").Child("ephemeralContainers").Forbidden("ephemeral containers not allowed in pod template")
	}
}

// ValidateTemplateMetadata has those of the rules that are not about the pods
// themselves.
func ValidateTemplateMetadata(f validation.Field, template *corev1.PodTemplateSpec) {
	f.Child("labels").Labels(template.Labels)
	f.Child("annotations").Annotations(template.Annotations)
	ValidateAnnotations(f.Child("annotations"), &template.ObjectMeta, &template.Spec)
}

// ValidateSelected requires that what a selector of pods looks for is what a
// template makes. A nil selector chooses none, and an empty one is not looked at.
func ValidateSelected(f validation.Field, selector labels.Selector, template *corev1.PodTemplateSpec) {
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		f.Child("metadata").Child("labels").Invalid(template.Labels, "`selector` does not match template `labels`")
	}
}

// ValidateLasting requires that pods of a template go on for ever: of is the kind
// that replaces those that do not.
func ValidateLasting(f validation.Field, template *corev1.PodTemplateSpec, of string) {
	spec := f.Child("spec")
	if policy := template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		validation.NotSupported(spec.Child("restartPolicy"), policy, corev1.RestartPolicyAlways)
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		spec.Child("activeDeadlineSeconds").Forbidden("activeDeadlineSeconds in " + of + " is not Supported")
	}
}

// ValidateAnnotations has the rules of the annotations of pods that mean
// something.
func ValidateAnnotations(f validation.Field, meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	if mirror, ok := meta.Annotations[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		f.Key(corev1.MirrorPodAnnotationKey).Invalid(mirror, "must set spec.nodeName if mirror pod annotation is set")
	}
	if cost, ok := meta.Annotations[corev1.PodDeletionCost]; ok {
		if n, err := strconv.ParseInt(cost, 10, 32); err != nil || strconv.FormatInt(n, 10) != cost {
			f.Key(corev1.PodDeletionCost).Invalid(cost, "must be a 32bit integer")
		}
	}
}
