package core

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	declared "mainstay.dev/mainstay/internal/apis/builtin/declarative/core"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateVolumeClaim(f validation.Field, claim, old *corev1.PersistentVolumeClaim) {
	var before *corev1.PersistentVolumeClaimSpec
	if old != nil {
		before = &old.Spec
		validateVolumeClaimUpdate(f, claim, old)
	}
	podspec.ValidateClaimSpec(f.Child("spec"), &claim.Spec, before)
}

// validateVolumeClaimUpdate rejects changes of the spec, because quotas and limits are based on it. The
// exceptions are binding a volume and, for a bound claim, a larger request or another volume attributes class.
func validateVolumeClaimUpdate(f validation.Field, claim, old *corev1.PersistentVolumeClaim) {
	const annotation = corev1.BetaStorageClassAnnotation
	upgrade := upgradesClass(claim, old)
	if !upgrade && claim.Annotations[annotation] != old.Annotations[annotation] {
		f.Child("metadata").Child("annotations").Child(annotation).Invalid(claim.Annotations[annotation], apivalidation.FieldImmutableErrorMsg)
	}
	if validation.Changed(&claim.Spec, &old.Spec) {
		now, was := fixedParts(claim, old, upgrade)
		if validation.Changed(now, was) {
			f.Child("spec").Forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n" +
				validation.Diff(was, now))
		}
	}
	size, before := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(before) < 0 && size.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		f.Child("spec").Child("resources").Child("requests").Child("storage").Forbidden("field can not be less than status.capacity")
	}
	validation.Immutable(f.Child("volumeMode"), claim.Spec.VolumeMode, old.Spec.VolumeMode) // as in kube-apiserver, the path lacks "spec"
}

// upgradesClass reports whether an update moves the storage class from the beta annotation to the field.
func upgradesClass(claim, old *corev1.PersistentVolumeClaim) bool {
	before, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	now, still := claim.Annotations[corev1.BetaStorageClassAnnotation]
	class := claim.Spec.StorageClassName
	return annotated && old.Spec.StorageClassName == nil && class != nil && *class == before && (!still || now == before)
}

// fixedParts returns both specs with permitted differences removed.
func fixedParts(claim, old *corev1.PersistentVolumeClaim, upgrade bool) (now, was *corev1.PersistentVolumeClaimSpec) {
	spec, before := claim.Spec, old.Spec
	if before.VolumeName == "" {
		before.VolumeName = spec.VolumeName
	}
	class, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	given := before.StorageClassName == nil && spec.StorageClassName != nil // by the controller that sets the default class
	if given && (upgrade || !annotated || *spec.StorageClassName == class) {
		spec.StorageClassName = nil
	}
	if old.Status.Phase == corev1.ClaimBound {
		spec.VolumeAttributesClassName = before.VolumeAttributesClassName
		if size, ok := before.Resources.Requests[corev1.ResourceStorage]; ok && spec.Resources.Requests != nil {
			spec.Resources.Requests = maps.Clone(spec.Resources.Requests)
			spec.Resources.Requests[corev1.ResourceStorage] = size
		}
	}
	return &spec, &before
}

func validateVolumeClaimStatus(f validation.Field, claim, old *corev1.PersistentVolumeClaim) {
	f, status := f.Child("status"), &claim.Status
	for name, quantity := range status.Capacity {
		podspec.ValidateBasicQuantity(f.Child("capacity").Key(string(name)), quantity)
	}
	if status.HealthStatus != nil {
		validation.ValidateDeclared(f, declared.Validate_PersistentVolumeClaimStatus, status, &old.Status, "status")
	}
	at := f.Child("allocatedResourceStatuses")
	for name, state := range status.AllocatedResourceStatuses {
		validateClaimResource(at, name)
		switch state {
		case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		default: // as in kube-apiserver, the error contains the name of the resource
			validation.NotSupported(at, name, corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
				corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible, corev1.PersistentVolumeClaimNodeResizePending)
		}
	}
	at = f.Child("allocatedResources")
	for name, quantity := range status.AllocatedResources {
		before := f.ErrorCount()
		validateClaimResource(at, name)
		if f.ErrorCount() == before {
			podspec.ValidateBasicQuantity(at.Key(string(name)), quantity)
		}
	}
}

// validateClaimResource rejects native resources other than storage.
func validateClaimResource(f validation.Field, name corev1.ResourceName) {
	before := f.ErrorCount()
	f.QualifiedName(string(name))
	native := podspec.CanOvercommit(name) || podspec.IsHugePages(name)
	if f.ErrorCount() == before && native && name != corev1.ResourceStorage {
		validation.NotSupported(f, name, corev1.ResourceStorage)
	}
}
