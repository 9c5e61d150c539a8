package plugin

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// These finalizers protect storage objects that are in use. The controllers in package storageprotection remove
// them.
const (
	pvProtection  = "kubernetes.io/pv-protection"
	pvcProtection = "kubernetes.io/pvc-protection"
	vacProtection = "kubernetes.io/vac-protection"
)

// StorageObjectInUseProtection adds a finalizer to new volumes, claims and volume attributes classes. The
// finalizer prevents the removal of an object while it is in use.
type StorageObjectInUseProtection struct{ onCreate }

var _ admission.Mutator = StorageObjectInUseProtection{}

func storageObjectInUseProtectionPlugin() Registration {
	return Registration{
		Name: StorageObjectInUseProtection{}.Name(), Description: "adds a finalizer that prevents the deletion of volumes, claims and attribute classes in use",
		OnByDefault: true,
		New:         func(Dependencies) admission.Plugin { return StorageObjectInUseProtection{} },
	}
}

// Name implements admission.Plugin.
func (StorageObjectInUseProtection) Name() string { return "StorageObjectInUseProtection" }

// Mutate implements admission.Mutator.
func (StorageObjectInUseProtection) Mutate(_ context.Context, a *admission.Attributes) error {
	if volume := objectOf[corev1.PersistentVolume](a, "", "persistentvolumes"); volume != nil {
		addFinalizer(&volume.ObjectMeta, pvProtection)
	}
	if claim := objectOf[corev1.PersistentVolumeClaim](a, "", "persistentvolumeclaims"); claim != nil {
		addFinalizer(&claim.ObjectMeta, pvcProtection)
	}
	if class := objectOf[storagev1.VolumeAttributesClass](a, storagev1.GroupName, "volumeattributesclasses"); class != nil {
		addFinalizer(&class.ObjectMeta, vacProtection)
	}
	return nil
}

func addFinalizer(metadata *metav1.ObjectMeta, finalizer string) {
	if !slices.Contains(metadata.Finalizers, finalizer) {
		metadata.Finalizers = append(metadata.Finalizers, finalizer)
	}
}
