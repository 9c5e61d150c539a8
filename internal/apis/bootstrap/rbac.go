package bootstrap

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
)

const (
	bootstrappingLabel   = "kubernetes.io/bootstrapping"
	bootstrappingDefault = "rbac-defaults"
	// aggregateLabelPrefix, followed by the name of an aggregated role, is the label key that marks the parts
	// of this role.
	aggregateLabelPrefix = "rbac.authorization.k8s.io/aggregate-to-"
	controllerPrefix     = "system:controller:"
	rbacGroup            = rbacv1.GroupName
	coreGroupInTables    = "core"
)

// rbacObjects returns the default roles and bindings for a server with the given gates.
func rbacObjects(gates feature.Gates) []set {
	rbac := rbacv1.SchemeGroupVersion
	filter := newRoleFilter(gates)
	roles, bindings := grants(controllerRoles())
	roles = filter.roles(slices.Concat(userRoles(), systemRoles(), roles))
	bindings = filter.bindings(slices.Concat(systemBindings(), bindings))
	return append(clusterSets(roles, bindings),
		set{resource: rbac.WithResource("roles"), objects: objects(namespacedRoles()), revise: reviseRole},
		set{resource: rbac.WithResource("rolebindings"), objects: objects(namespacedBindings()), revise: reviseBinding, replace: otherRole},
	)
}

// grants returns the cluster roles of controllers, and bindings of these roles to the controllers' service
// accounts.
func grants(controllers []controllerRole) (roles []*rbacv1.ClusterRole, bindings []*rbacv1.ClusterRoleBinding) {
	for _, controller := range controllers {
		name := controllerPrefix + controller.name
		roles = append(roles, clusterRole(name, controller.rules...))
		bindings = append(bindings, clusterBinding(name, name, account(controller.name)))
	}
	return roles, bindings
}

func clusterSets(roles []*rbacv1.ClusterRole, bindings []*rbacv1.ClusterRoleBinding) []set {
	rbac := rbacv1.SchemeGroupVersion
	return []set{
		{resource: rbac.WithResource("clusterroles"), objects: objects(roles), revise: reviseRole},
		{resource: rbac.WithResource("clusterrolebindings"), objects: objects(bindings), revise: reviseBinding, replace: otherRole},
	}
}

func objects[T codec.Object](list []T) []codec.Object {
	all := make([]codec.Object, len(list))
	for i, obj := range list {
		all[i] = obj
	}
	return all
}

// The following functions create the elements of the tables in rbac_*.go.

// allow returns a rule for resources. Verbs, groups and resources are separated by spaces. The name
// of the core group is "core".
func allow(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	apiGroups := strings.Fields(groups)
	for i, group := range apiGroups {
		if group == coreGroupInTables {
			apiGroups[i] = ""
		}
	}
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: apiGroups, Resources: strings.Fields(resources), ResourceNames: names}
}

// urls returns a rule for non-resource paths.
func urls(verbs, paths string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(paths)}
}

func rbacMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{bootstrappingLabel: bootstrappingDefault},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: rbacMeta("", name), Rules: rules}
}

// aggregatedFrom makes role aggregate all roles that are labeled with aggregatesTo(name). It modifies and
// returns role.
func aggregatedFrom(name string, role *rbacv1.ClusterRole) *rbacv1.ClusterRole {
	role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
		{MatchLabels: map[string]string{aggregateLabelPrefix + name: "true"}},
	}}
	return role
}

// aggregatesTo labels role as a part of the aggregated role with the given name. It modifies and returns role.
func aggregatesTo(name string, role *rbacv1.ClusterRole) *rbacv1.ClusterRole {
	role.Labels[aggregateLabelPrefix+name] = "true"
	return role
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: rbacMeta(namespace, name), Rules: rules}
}

func clusterBinding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: rbacMeta("", name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "ClusterRole", Name: role},
	}
}

func binding(namespace, name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: rbacMeta(namespace, name), Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacGroup, Kind: "Role", Name: role},
	}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacGroup, Name: name}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacGroup, Name: name}
}

// account returns the subject for the service account with the given name in kube-system.
func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}

// reviseRole adds missing rules to a role and preserves additional rules, unless an administrator has disabled
// this with an annotation.
func reviseRole(existing, wanted codec.Object) bool {
	if protected(existing) {
		return false
	}
	changed := reviseMeta(existing, wanted)
	is, should := rulesOf(existing), rulesOf(wanted)
	if missing := uncovered(*is, *should); len(missing) > 0 {
		*is, changed = append(*is, missing...), true
	}
	clusterRole, ok := existing.(*rbacv1.ClusterRole)
	if !ok || wanted.(*rbacv1.ClusterRole).AggregationRule == nil {
		return changed
	}
	if clusterRole.AggregationRule == nil {
		clusterRole.AggregationRule = &rbacv1.AggregationRule{}
	}
	selectors := &clusterRole.AggregationRule.ClusterRoleSelectors
	for _, selector := range wanted.(*rbacv1.ClusterRole).AggregationRule.ClusterRoleSelectors {
		if !slices.ContainsFunc(*selectors, func(s metav1.LabelSelector) bool {
			return len(s.MatchExpressions) == 0 && maps.Equal(s.MatchLabels, selector.MatchLabels)
		}) {
			*selectors, changed = append(*selectors, selector), true
		}
	}
	return changed
}

// reviseBinding adds missing subjects to a binding, unless an administrator has disabled this with an
// annotation.
func reviseBinding(existing, wanted codec.Object) bool {
	if protected(existing) {
		return false
	}
	changed := reviseMeta(existing, wanted)
	is, _ := bindingOf(existing)
	should, _ := bindingOf(wanted)
	for _, subject := range *should {
		if !slices.Contains(*is, subject) {
			*is, changed = append(*is, subject), true
		}
	}
	return changed
}

// otherRole reports whether a binding must be replaced because its role differs from the declared role. The
// role of a binding is immutable.
func otherRole(existing, wanted codec.Object) bool {
	_, is := bindingOf(existing)
	_, should := bindingOf(wanted)
	return !protected(existing) && is != should
}

func protected(obj codec.Object) bool {
	return obj.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] == "false"
}

// reviseMeta adds missing labels and annotations. It preserves the values of existing labels and annotations.
func reviseMeta(existing, wanted codec.Object) bool {
	labels, newLabels := withDefaults(existing.GetLabels(), wanted.GetLabels())
	annotations, newAnnotations := withDefaults(existing.GetAnnotations(), wanted.GetAnnotations())
	existing.SetLabels(labels)
	existing.SetAnnotations(annotations)
	return newLabels || newAnnotations
}

func withDefaults(is, should map[string]string) (merged map[string]string, changed bool) {
	for key, value := range should {
		if _, ok := is[key]; ok {
			continue
		}
		if is == nil {
			is = map[string]string{}
		}
		is[key], changed = value, true
	}
	return is, changed
}

func rulesOf(obj codec.Object) *[]rbacv1.PolicyRule {
	if role, ok := obj.(*rbacv1.Role); ok {
		return &role.Rules
	}
	return &obj.(*rbacv1.ClusterRole).Rules
}

func bindingOf(obj codec.Object) (*[]rbacv1.Subject, rbacv1.RoleRef) {
	if binding, ok := obj.(*rbacv1.RoleBinding); ok {
		return &binding.Subjects, binding.RoleRef
	}
	binding := obj.(*rbacv1.ClusterRoleBinding)
	return &binding.Subjects, binding.RoleRef
}
