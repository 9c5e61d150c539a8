package registry

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest/names"
)

// validateMetadata validates the metadata of a new object.
func (s *Strategy) validateMetadata(obj codec.Object) field.ErrorList {
	if s.validNames(obj) && s.validMetadata(obj) {
		return nil
	}
	return validation.ValidateObjectMetaAccessor(obj, s.Namespaced, s.validateName, field.NewPath("metadata"))
}

// validateMetadataUpdate validates the metadata of an object that replaces old.
func (s *Strategy) validateMetadataUpdate(obj, old codec.Object) field.ErrorList {
	if obj.GetName() != "" && s.validMetadata(obj) && sameIdentity(obj, old) {
		return nil
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, s.Namespaced, anyPathSegment, path)
	return append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, path)...)
}

// The following functions are fast paths. They return true only if the regular expressions of
// apimachinery, which are slow, would find no error. If they return false, the caller uses
// apimachinery.

func (s *Strategy) validNames(obj codec.Object) bool {
	name, base := obj.GetName(), obj.GetGenerateName()
	return name != "" && len(s.validateName(name, false)) == 0 &&
		(base == "" || len(s.validateName(base, true)) == 0)
}

// validMetadata checks all metadata except the names.
func (s *Strategy) validMetadata(obj codec.Object) bool {
	namespace := obj.GetNamespace()
	return namespace == "" != s.Namespaced && (namespace == "" || names.IsLabel(namespace)) &&
		obj.GetGeneration() >= 0 &&
		validLabels(obj.GetLabels()) && validAnnotations(obj.GetAnnotations()) && validFinalizers(obj.GetFinalizers()) &&
		len(validation.ValidateOwnerReferences(obj.GetOwnerReferences(), nil)) == 0 &&
		len(metav1validation.ValidateManagedFields(obj.GetManagedFields(), nil)) == 0
}

func validLabels(labels map[string]string) bool {
	for key, value := range labels {
		if !names.IsQualified(key) || value != "" && !names.IsLabelValue(value) {
			return false
		}
	}
	return true
}

func validAnnotations(annotations map[string]string) bool {
	for key := range annotations {
		if !names.IsQualified(key) {
			return false
		}
	}
	return validation.ValidateAnnotationsSize(annotations) == nil
}

// validFinalizers returns false for several finalizers, because some of them exclude each other.
func validFinalizers(finalizers []string) bool {
	return len(finalizers) == 0 || len(finalizers) == 1 && names.IsQualified(finalizers[0])
}

// sameIdentity reports whether all immutable metadata is unchanged.
func sameIdentity(obj, old metav1.Object) bool {
	created, before := obj.GetCreationTimestamp(), old.GetCreationTimestamp()
	return sameDeletionState(obj, old) && obj.GetResourceVersion() != "" && obj.GetGeneration() >= old.GetGeneration() &&
		obj.GetName() == old.GetName() && obj.GetNamespace() == old.GetNamespace() && obj.GetUID() == old.GetUID() &&
		created.Equal(&before)
}

// sameDeletionState reports whether the deletion timestamp and grace period are unchanged and, for an object
// that is marked for deletion, the finalizers as well.
func sameDeletionState(obj, old metav1.Object) bool {
	grace, before := obj.GetDeletionGracePeriodSeconds(), old.GetDeletionGracePeriodSeconds()
	if grace != before && (grace == nil || before == nil || *grace != *before) {
		return false
	}
	return obj.GetDeletionTimestamp().Equal(old.GetDeletionTimestamp()) &&
		(old.GetDeletionTimestamp() == nil || slices.Equal(obj.GetFinalizers(), old.GetFinalizers()))
}
