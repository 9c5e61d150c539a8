package plugin

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// NamespaceLifecycle rejects new objects in namespaces that do not exist or are being deleted. It also rejects
// the deletion of the required namespaces.
type NamespaceLifecycle struct{ Namespaces Getter[*corev1.Namespace] }

var _ admission.Mutator = NamespaceLifecycle{}

func namespaceLifecyclePlugin() Registration {
	return Registration{
		Name: NamespaceLifecycle{}.Name(), Description: "rejects new objects in missing or terminating namespaces, and the deletion of system namespaces",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return NamespaceLifecycle{Namespaces: d.namespaces()} },
	}
}

// required are the namespaces that cannot be deleted.
var required = [...]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// Name implements admission.Plugin.
func (NamespaceLifecycle) Name() string { return "NamespaceLifecycle" }

// Handles implements admission.Plugin. Updates are always allowed: if the object exists, its
// namespace exists too.
func (NamespaceLifecycle) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Delete
}

// Mutate implements admission.Mutator. It does not change the object. As in kube-apiserver, the check is part
// of the mutating pass, so that it precedes the validation of the object.
func (p NamespaceLifecycle) Mutate(ctx context.Context, a *admission.Attributes) error {
	resource := a.Resource.GroupResource()
	switch {
	case isNamespace(a) && a.Operation == admission.Delete && slices.Contains(required[:], a.Name):
		return apierrors.NewForbidden(resource, a.Name, fmt.Errorf("this namespace may not be deleted"))
	case isNamespace(a), a.Namespace == "", a.Operation == admission.Delete, isAccessReview(resource):
		return nil
	}
	namespace, err := p.Namespaces.Get(ctx, types.NamespacedName{Name: a.Namespace})
	if err != nil {
		return err
	}
	return CheckTerminating(namespace, resource, a.Name)
}

// CheckTerminating returns the API error for the creation of an object in a namespace that is being deleted. It
// returns nil for other namespaces.
func CheckTerminating(namespace *corev1.Namespace, resource schema.GroupResource, name string) error {
	if namespace.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	refused := apierrors.NewForbidden(resource, name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace.Name))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
		Message: fmt.Sprintf("namespace %s is being terminated", namespace.Name),
	})
	return refused
}

func isAccessReview(resource schema.GroupResource) bool {
	return resource.Group == "authorization.k8s.io"
}
