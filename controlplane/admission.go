package controlplane

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/admission/plugin"
	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/local"
)

// admission is the list of plugins, in order of execution: all that mutate, then,
// on the final object, all that validate. A new one has its place here, and
// nowhere else.
func (i *instance) admission() admission.Chain {
	return admission.Chain{
		plugin.NamespaceLifecycle{Namespaces: stored[*corev1.Namespace](i, corev1.SchemeGroupVersion, "namespaces")},
		plugin.Priority{Classes: stored[*schedulingv1.PriorityClass](i, schedulingv1.SchemeGroupVersion, "priorityclasses")},
		plugin.DefaultTolerationSeconds{},
	}
}

// stored is how plugins look up objects.
func stored[T codec.Object](i *instance, gv schema.GroupVersion, resource string) *local.Client[T] {
	return local.For[T](i.local, gv.WithResource(resource))
}
