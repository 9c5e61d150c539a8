package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
)

// NamespaceExists rejects requests in namespaces that do not exist.
type NamespaceExists struct{ Namespaces Getter[*corev1.Namespace] }

var _ admission.Validator = NamespaceExists{}

func namespaceExistsPlugin() Registration {
	return Registration{
		Name: NamespaceExists{}.Name(), Description: "rejects requests in missing namespaces",
		New: func(d Dependencies) admission.Plugin { return NamespaceExists{Namespaces: d.namespaces()} },
	}
}

// Name implements admission.Plugin.
func (NamespaceExists) Name() string { return "NamespaceExists" }

// Handles implements admission.Plugin.
func (NamespaceExists) Handles(op admission.Operation) bool { return op != admission.Connect }

// Validate implements admission.Validator.
func (p NamespaceExists) Validate(ctx context.Context, a *admission.Attributes) error {
	if a.Namespace == "" || isNamespace(a) {
		return nil
	}
	_, err := p.Namespaces.Get(ctx, types.NamespacedName{Name: a.Namespace})
	return err
}

// isNamespace reports whether a request is for a Namespace or one of its subresources. The namespace of such a
// request is the object itself.
func isNamespace(a *admission.Attributes) bool {
	return a.Resource.Name == "namespaces" && a.Resource.GroupVersion.Group == ""
}
