package match

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// rule is a rule of a configuration and its scope, which is AllScopes by default.
type rule struct {
	*admissionregistrationv1.NamedRuleWithOperations
	scope admissionregistrationv1.ScopeType
}

func rulesOf(named []admissionregistrationv1.NamedRuleWithOperations) []rule {
	rules := make([]rule, len(named))
	for i := range named {
		rules[i] = rule{&named[i], admissionregistrationv1.AllScopes}
		if scope := named[i].Scope; scope != nil {
			rules[i].scope = *scope
		}
	}
	return rules
}

// matches reports whether the rule matches the request as if it were for the given resource.
func (r rule) matches(request *admission.Request, resource *rest.Resource) bool {
	return r.matchesResource(request.Operation, resource) && r.inScope(request, resource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, request.Name))
}

// matchesResource reports whether the rule matches an operation on any object of a resource.
func (r rule) matchesResource(op admission.Operation, resource *rest.Resource) bool {
	return contains(r.Operations, admissionregistrationv1.OperationType(op)) &&
		contains(r.APIGroups, resource.GroupVersion.Group) && contains(r.APIVersions, resource.GroupVersion.Version) &&
		slices.ContainsFunc(r.Resources, func(name string) bool { return matchesName(resource, name) })
}

// contains reports whether the list contains the value or the wildcard "*".
func contains[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// matchesName reports whether the resource name in a rule matches a resource. Examples of names are "pods",
// "pods/status", "*/scale" and "pods/*". "*" matches all resources, but no subresources.
func matchesName(resource *rest.Resource, name string) bool {
	name, subresource, _ := strings.Cut(name, "/")
	return (name == "*" || name == resource.Name) && (subresource == "*" || subresource == resource.Subresource)
}

// inScope reports whether the request is in the scope of the rule. Requests for namespaces are
// cluster-scoped, although their Namespace is set.
func (r rule) inScope(request *admission.Request, resource *rest.Resource) bool {
	if r.scope == admissionregistrationv1.AllScopes {
		return true
	}
	clustered := request.Namespace == "" || isNamespaces(resource)
	return clustered == (r.scope == admissionregistrationv1.ClusterScope)
}

func isNamespaces(resource *rest.Resource) bool {
	return resource.Name == "namespaces" && resource.GroupVersion.Group == ""
}
