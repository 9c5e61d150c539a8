package podspec

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// ValidatePersistentVolumeSpec validates the spec of a PersistentVolume. name is the name of the volume; one
// of the rules limits its length. old is nil on creation.
func ValidatePersistentVolumeSpec(f validation.Field, name string, spec, old *corev1.PersistentVolumeSpec) {
	validateVolumeSpec(f, name, spec)
	validateCapacity(f.Child("capacity"), spec.Capacity)
	if policy := spec.PersistentVolumeReclaimPolicy; policy != "" {
		validation.OneOf(f.Child("persistentVolumeReclaimPolicy"), policy, corev1.PersistentVolumeReclaimDelete,
			corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	}
	if old == nil || validation.Changed(spec.NodeAffinity, old.NodeAffinity) {
		validateVolumeAffinity(f.Child("nodeAffinity"), spec.NodeAffinity)
	}
	if spec.StorageClassName != "" {
		f.Child("storageClassName").DNSSubdomain(spec.StorageClassName)
	}
	validateVolumeMode(f.Child("volumeMode"), spec.VolumeMode)
}

// ValidateInlineVolumeSpec validates an inline volume, which is part of a VolumeAttachment instead of a
// PersistentVolume.
func ValidateInlineVolumeSpec(f validation.Field, spec *corev1.PersistentVolumeSpec) {
	const inline = "in the context of inline volumes"
	validateVolumeSpec(f, "", spec)
	if spec.CSI == nil {
		f.Child("csi").Required("has to be specified " + inline)
	}
	for _, field := range [...]setField{
		{"claimRef", spec.ClaimRef != nil}, {"capacity", len(spec.Capacity) > 0}, {"nodeAffinity", spec.NodeAffinity != nil},
		{"storageClassName", spec.StorageClassName != ""},
	} {
		if field.set {
			f.Child(field.name).Forbidden("may not be specified " + inline)
		}
	}
	if policy := spec.PersistentVolumeReclaimPolicy; policy != "" && policy != corev1.PersistentVolumeReclaimRetain {
		f.Child("persistentVolumeReclaimPolicy").Forbidden("may only be Retain " + inline)
	}
	if mode := spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		f.Child("volumeMode").Forbidden("may not specify volumeMode other than Filesystem " + inline)
	}
}

// validateVolumeSpec contains the rules that apply to both PersistentVolumes and inline volumes.
func validateVolumeSpec(f validation.Field, name string, spec *corev1.PersistentVolumeSpec) {
	if len(spec.AccessModes) == 0 {
		f.Child("accessModes").Required("")
	}
	validateAccessModes(f.Child("accessModes"), spec.AccessModes)
	if validatePersistentSources(f, persistentVolume{name, spec}) == "local" && spec.NodeAffinity == nil {
		f.Child("nodeAffinity").Required("Local volume requires node affinity")
	}
	if s := spec.HostPath; s != nil && path.Clean(s.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		f.Child("persistentVolumeReclaimPolicy").Forbidden("may not be 'recycle' for a hostPath mount of '/'")
	}
	class := spec.VolumeAttributesClassName
	if class == nil {
		return
	}
	if *class == "" {
		f.Child("volumeAttributesClassName").Required("an empty string is disallowed")
	} else {
		f.Child("volumeAttributesClassName").DNSSubdomain(*class)
	}
	if spec.CSI == nil {
		f.Child("csi").Required("has to be specified when using volumeAttributesClassName")
	}
}

// validateCapacity requires that the capacity contains storage and no other resources.
func validateCapacity(f validation.Field, capacity corev1.ResourceList) {
	if len(capacity) == 0 {
		f.Required("")
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		validation.NotSupported(f, capacity, corev1.ResourceStorage)
	}
	for name, quantity := range capacity {
		at := f.Key(string(name))
		ValidateBasicQuantity(at, quantity)
		if quantity.Sign() <= 0 {
			at.Invalid(quantity.String(), "must be greater than zero")
		}
	}
}

func validateVolumeAffinity(f validation.Field, affinity *corev1.VolumeNodeAffinity) {
	if affinity == nil {
		return
	}
	if affinity.Required == nil {
		f.Child("required").Required("must specify required node constraints")
		return
	}
	ValidateNodeSelector(f.Child("required"), affinity.Required)
}

func validateVolumeMode(f validation.Field, mode *corev1.PersistentVolumeMode) {
	if mode != nil {
		validation.OneOf(f, *mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

// ValidateBasicQuantity requires that a quantity is not negative. Its error message is the one for capacities.
func ValidateBasicQuantity(f validation.Field, quantity resource.Quantity) {
	if n := quantity.Value(); n < 0 {
		f.Invalid(n, "must be a valid resource quantity")
	}
}
