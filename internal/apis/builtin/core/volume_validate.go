package core

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

func validatePersistentVolume(f validation.Field, pv, old *corev1.PersistentVolume) {
	var before *corev1.PersistentVolumeSpec
	if old != nil {
		before = &old.Spec
		validatePersistentVolumeUpdate(f, &pv.Spec, before)
	}
	podspec.ValidatePersistentVolumeSpec(f.Child("spec"), pv.Name, &pv.Spec, before)
}

// validatePersistentVolumeUpdate rejects changes of a volume's source and mode. As in kube-apiserver, the
// paths of some errors lack "spec".
func validatePersistentVolumeUpdate(f validation.Field, spec, old *corev1.PersistentVolumeSpec) {
	source := withOldExpandSecret(&spec.PersistentVolumeSource, &old.PersistentVolumeSource)
	if validation.Changed(source, &old.PersistentVolumeSource) {
		f.Child("spec").Child("persistentvolumesource").Forbidden("spec.persistentvolumesource is immutable after creation\n" +
			validation.Diff(old.PersistentVolumeSource, *source))
	}
	validation.Immutable(f.Child("volumeMode"), spec.VolumeMode, old.VolumeMode)
	if old.NodeAffinity != nil && !f.Enabled(feature.MutablePVNodeAffinity) &&
		validation.Changed(withOldLabels(spec.NodeAffinity, old.NodeAffinity), old.NodeAffinity) {
		f.Child("nodeAffinity").Invalid(spec.NodeAffinity, apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA")
	}
	if old.VolumeAttributesClassName != nil && spec.VolumeAttributesClassName == nil {
		f.Child("spec").Child("volumeAttributesClassName").Forbidden("update from non-nil value to nil is forbidden")
	}
}

// withOldExpandSecret returns source without a newly added expansion secret. Adding this secret is allowed,
// because the field did not exist when older volumes were created.
func withOldExpandSecret(source, old *corev1.PersistentVolumeSource) *corev1.PersistentVolumeSource {
	if source.CSI == nil || old.CSI == nil || source.CSI.ControllerExpandSecretRef == nil || old.CSI.ControllerExpandSecretRef != nil {
		return source
	}
	same, csi := *source, *source.CSI
	csi.ControllerExpandSecretRef = nil
	same.CSI = &csi
	return &same
}

// withOldLabels returns a copy of affinity in which labels that replace the beta labels of old are changed
// back to these beta labels.
func withOldLabels(affinity, old *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if affinity == nil || affinity.Required == nil || old.Required == nil {
		return affinity
	}
	same := affinity.DeepCopy()
	terms, before := same.Required.NodeSelectorTerms, old.Required.NodeSelectorTerms
	for i := range min(len(terms), len(before)) {
		relabel(terms[i].MatchExpressions, before[i].MatchExpressions)
		relabel(terms[i].MatchFields, before[i].MatchFields)
	}
	return same
}

func relabel(requirements, old []corev1.NodeSelectorRequirement) {
	for i := range min(len(requirements), len(old)) {
		if requirements[i].Key == podspec.StableNodeLabel(old[i].Key) {
			requirements[i].Key = old[i].Key
		}
	}
}
