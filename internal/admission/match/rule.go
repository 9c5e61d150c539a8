package match

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// rule is a rule of a configuration.
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

// matches reports whether a request is meant, if it were one for resource.
func (r rule) matches(asked *admission.Request, resource *rest.Resource) bool {
	return r.names(asked.Operation, resource) && r.inScope(asked, resource) &&
		(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, asked.Name))
}

// names reports whether the rule matches an operation on a resource, for any object.
func (r rule) names(op admission.Operation, resource *rest.Resource) bool {
	return has(r.Operations, admissionregistrationv1.OperationType(op)) &&
		has(r.APIGroups, resource.GroupVersion.Group) && has(r.APIVersions, resource.GroupVersion.Version) &&
		slices.ContainsFunc(r.Resources, func(name string) bool { return isNamed(resource, name) })
}

// has reports whether a list has a value, or the asterisk, which is all.
func has[T ~string](list []T, value T) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// isNamed reports whether a rule's name is that of a resource: "pods",
// "pods/status", "*/scale", "pods/*". "*" is all resources, and no subresource.
func isNamed(resource *rest.Resource, name string) bool {
	name, subresource, _ := strings.Cut(name, "/")
	return (name == "*" || name == resource.Name) && (subresource == "*" || subresource == resource.Subresource)
}

// inScope reports whether a request is in the scope of the rule. A namespace is
// not in a namespace, although its requests carry its name as theirs.
func (r rule) inScope(asked *admission.Request, resource *rest.Resource) bool {
	if r.scope == admissionregistrationv1.AllScopes {
		return true
	}
	clustered := asked.Namespace == "" || isOfNamespaces(resource)
	return clustered == (r.scope == admissionregistrationv1.ClusterScope)
}

func isOfNamespaces(resource *rest.Resource) bool {
	return resource.Name == "namespaces" && resource.GroupVersion.Group == ""
}
