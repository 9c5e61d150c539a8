package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// NamespaceCreator reads and creates namespaces. It is safe for concurrent use.
type NamespaceCreator interface {
	Getter[*corev1.Namespace]
	// Create creates a namespace with the server's own permissions. The caller must not use the argument
	// afterwards.
	Create(ctx context.Context, namespace *corev1.Namespace) (*corev1.Namespace, error)
}

// NamespaceAutoProvision creates the namespace of a new object if it does not exist.
type NamespaceAutoProvision struct {
	onCreate
	Namespaces NamespaceCreator
}

var _ admission.Mutator = NamespaceAutoProvision{}

func namespaceAutoProvisionPlugin() Registration {
	return Registration{
		Name: NamespaceAutoProvision{}.Name(), Description: "creates the namespace of a new object if it does not exist",
		New: func(d Dependencies) admission.Plugin { return NamespaceAutoProvision{Namespaces: d.namespaces()} },
	}
}

// Name implements admission.Plugin.
func (NamespaceAutoProvision) Name() string { return "NamespaceAutoProvision" }

// Mutate implements admission.Mutator. It does not create the namespace for a dry run.
func (p NamespaceAutoProvision) Mutate(ctx context.Context, a *admission.Attributes) error {
	if a.Namespace == "" || isNamespace(a) || a.DryRun {
		return nil
	}
	_, err := p.Namespaces.Get(ctx, types.NamespacedName{Name: a.Namespace})
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return reject(a, err)
	}
	_, err = p.Namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.Namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return reject(a, err)
	}
	return nil
}
