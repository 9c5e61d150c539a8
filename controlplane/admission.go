package controlplane

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/admission/plugin"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/route"
)

// admission is the list of plugins, in order of execution: all that mutate, then,
// on the final object, all that validate. A new one has its place here, and
// nowhere else.
func (i *instance) admission() admission.Chain {
	return admission.Chain{
		plugin.NamespaceLifecycle{Namespaces: namespaces{i.catalog}},
	}
}

// namespaces finds namespaces for admission.
type namespaces struct{ catalog *route.Catalog }

func (n namespaces) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	getter, ok := n.catalog.Find(corev1.SchemeGroupVersion, "namespaces", "").Storage.(rest.Getter)
	if !ok {
		return nil, errors.New("namespaces cannot be read")
	}
	record, err := getter.Get(ctx, types.NamespacedName{Name: name}, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	obj, err := record.Shared()
	if err != nil {
		return nil, err
	}
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("namespace %s is a %T", name, obj)
	}
	return namespace, nil
}
