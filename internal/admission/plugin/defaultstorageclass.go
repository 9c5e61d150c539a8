package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"mainstay.dev/mainstay/internal/admission"
)

// Annotations that mark a storage class as default.
const (
	defaultStorageClass     = "storageclass.kubernetes.io/is-default-class"
	defaultStorageClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// DefaultStorageClass sets the default storage class of new claims that specify no class.
type DefaultStorageClass struct {
	onCreate
	Classes Lister[*storagev1.StorageClass]
}

var _ admission.Mutator = DefaultStorageClass{}

func defaultStorageClassPlugin() Registration {
	return Registration{
		Name: DefaultStorageClass{}.Name(), Description: "sets the default storage class of claims",
		OnByDefault: true,
		New: func(d Dependencies) admission.Plugin {
			return DefaultStorageClass{Classes: cached[*storagev1.StorageClass](d, storagev1.SchemeGroupVersion, "storageclasses")}
		},
	}
}

// Name implements admission.Plugin.
func (DefaultStorageClass) Name() string { return "DefaultStorageClass" }

// Mutate implements admission.Mutator.
func (p DefaultStorageClass) Mutate(ctx context.Context, a *admission.Attributes) error {
	claim := objectOf[corev1.PersistentVolumeClaim](a, "", "persistentvolumeclaims")
	if claim == nil || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
		return nil
	}
	class, ok, err := newestDefault(ctx, p.Classes, isDefaultStorageClass)
	if err != nil {
		return reject(a, err)
	}
	if ok {
		name := class.Name
		claim.Spec.StorageClassName = &name
	}
	return nil
}

func isDefaultStorageClass(annotations map[string]string) bool {
	return annotations[defaultStorageClass] == "true" || annotations[defaultStorageClassBeta] == "true"
}
