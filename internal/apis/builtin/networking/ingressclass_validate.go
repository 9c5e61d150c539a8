package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const (
	maxControllerLength = 250

	clusterScope   = networkingv1.IngressClassParametersReferenceScopeCluster
	namespaceScope = networkingv1.IngressClassParametersReferenceScopeNamespace
)

func validateIngressClass(f validation.Field, class, old *networkingv1.IngressClass) {
	f = f.Child("spec")
	if old != nil {
		validation.ImmutableValue(f.Child("controller"), class.Spec.Controller, old.Spec.Controller)
	}
	validateController(f.Child("controller"), class.Spec.Controller)
	if class.Spec.Parameters != nil {
		validateParameters(f.Child("parameters"), class.Spec.Parameters)
	}
}

func validateController(f validation.Field, name string) {
	if len(name) > maxControllerLength {
		f.TooLong(maxControllerLength)
	}
	if len(apivalidation.IsDomainPrefixedPath(nil, name)) > 0 {
		f.Add(apivalidation.IsDomainPrefixedPath(f.Path(), name)...)
	}
}

func validateParameters(f validation.Field, ref *networkingv1.IngressClassParametersReference) {
	if ref.APIGroup != nil {
		f.Child("apiGroup").DNSSubdomain(*ref.APIGroup)
	}
	f.Child("kind").RequiredPathSegment(ref.Kind)
	f.Child("name").RequiredPathSegment(ref.Name)
	if ref.Scope == nil {
		f.Child("scope").Required("")
		return
	}
	at := f.Child("namespace")
	switch {
	case *ref.Scope == clusterScope:
		if ref.Namespace != nil {
			at.Forbidden("`parameters.scope` is set to 'Cluster'")
		}
	case *ref.Scope != namespaceScope:
		validation.NotSupported(f.Child("scope"), *ref.Scope, clusterScope, namespaceScope)
	case ref.Namespace == nil:
		at.Required("`parameters.scope` is set to 'Namespace'")
	default:
		at.DNSLabel(*ref.Namespace)
	}
}
