package controlplane

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/admission/plugin"
	"mainstay.dev/mainstay/local"
)

// admission is the list of plugins, in order of execution: all that mutate, then,
// on the final object, all that validate. A new one has its place here, and
// nowhere else.
func (i *instance) admission() admission.Chain {
	return admission.Chain{
		plugin.NamespaceLifecycle{Namespaces: namespaces{local.For[*corev1.Namespace](i.local, corev1.SchemeGroupVersion.WithResource("namespaces"))}},
	}
}

// namespaces finds namespaces for admission.
type namespaces struct {
	*local.Client[*corev1.Namespace]
}

func (n namespaces) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return n.Get(ctx, types.NamespacedName{Name: name})
}
