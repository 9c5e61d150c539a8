package plugin

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// PersistentVolumeClaimResize rejects an increase of a claim's storage request unless the claim is bound and
// its class allows expansion.
type PersistentVolumeClaimResize struct {
	onUpdate
	Classes Getter[*storagev1.StorageClass]
}

var _ admission.Validator = PersistentVolumeClaimResize{}

func persistentVolumeClaimResizePlugin() Registration {
	return Registration{
		Name: PersistentVolumeClaimResize{}.Name(), Description: "rejects the expansion of claims unless their storage class allows it",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return PersistentVolumeClaimResize{Classes: cached[*storagev1.StorageClass](d, storagev1.SchemeGroupVersion, "storageclasses")}
		},
	}
}

// Name implements admission.Plugin.
func (PersistentVolumeClaimResize) Name() string { return "PersistentVolumeClaimResize" }

// Validate implements admission.Validator.
func (p PersistentVolumeClaimResize) Validate(ctx context.Context, a *admission.Attributes) error {
	claim, old := objectOf[corev1.PersistentVolumeClaim](a, "", "persistentvolumeclaims"), oldOf[corev1.PersistentVolumeClaim](a)
	if claim == nil || old == nil || claim.Spec.Resources.Requests.Storage().Cmp(*old.Spec.Resources.Requests.Storage()) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return reject(a, errors.New("Only bound persistent volume claims can be expanded"))
	}
	if !p.isExpansionAllowed(ctx, claim, old) {
		return reject(a, errors.New("only dynamically provisioned pvc can be resized and "+
			"the storageclass that provisions the pvc must support resize"))
	}
	return nil
}

func (p PersistentVolumeClaimResize) isExpansionAllowed(ctx context.Context, claim, old *corev1.PersistentVolumeClaim) bool {
	name := storageClassOf(claim)
	if name == "" || name != storageClassOf(old) {
		return false
	}
	class, err := p.Classes.Get(ctx, types.NamespacedName{Name: name})
	return err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

// storageClassOf returns the name of a claim's storage class. The beta annotation, which predates
// spec.storageClassName, takes precedence.
func storageClassOf(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if name := claim.Spec.StorageClassName; name != nil {
		return *name
	}
	return ""
}
