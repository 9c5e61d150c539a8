package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// A user cannot grant permissions that the user does not have. To write a role, a user needs all of
// its permissions, or the verb "escalate" on it. To write a binding, a user needs all permissions
// of its role, or the verb "bind" on that role.
//
// As in kube-apiserver, this applies to all updates, except those that change only the fields that the garbage
// collector changes. Updates that do not change the rules are included, because a change of labels can make
// other roles aggregate them.

func authorizeRole(op *builtin.Operation, role, old *rbacv1.Role) error {
	if old != nil && onlyCollection(role, old) {
		return nil
	}
	g := grant{op: op, namespace: role.Namespace, resource: "roles", name: role.Name}
	return g.authorize("escalate", "roles", role.Name, func() ([]rbacv1.PolicyRule, error) { return role.Rules, nil })
}

func authorizeClusterRole(op *builtin.Operation, role, old *rbacv1.ClusterRole) error {
	if old != nil && onlyCollection(role, old) {
		return nil
	}
	aggregates := role.AggregationRule != nil || old != nil && old.AggregationRule != nil
	g := grant{op: op, resource: "clusterroles", name: role.Name}
	return g.authorize("escalate", "clusterroles", role.Name, func() ([]rbacv1.PolicyRule, error) {
		// A role with an aggregation rule gets the permissions of roles that other users write.
		if aggregates && len(g.missing(everything())) > 0 {
			return nil, g.forbidden("must have cluster-admin privileges to use the aggregationRule")
		}
		return role.Rules, nil
	})
}

func authorizeRoleBinding(op *builtin.Operation, binding, old *rbacv1.RoleBinding) error {
	if old != nil && onlyCollection(binding, old) {
		return nil
	}
	g := grant{op: op, namespace: binding.Namespace, resource: "rolebindings", name: binding.Name}
	return g.authorizeBinding(binding.RoleRef)
}

func authorizeClusterRoleBinding(op *builtin.Operation, binding, old *rbacv1.ClusterRoleBinding) error {
	if old != nil && onlyCollection(binding, old) {
		return nil
	}
	g := grant{op: op, resource: "clusterrolebindings", name: binding.Name}
	return g.authorizeBinding(binding.RoleRef)
}

// onlyCollection reports whether an update changes only finalizers, owner references, managed
// fields and the resource version. The garbage collector must be able to delete a role without
// having its permissions.
func onlyCollection(obj, old codec.Object) bool {
	same := obj.DeepCopyObject().(codec.Object)
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	same.SetResourceVersion(old.GetResourceVersion())
	return equality.Semantic.DeepEqual(same, old)
}

// grant describes a write of a role or binding. The fields other than op identify the written object.
type grant struct {
	op             *builtin.Operation
	resource, name string
	namespace      string
}

func (g *grant) authorizeBinding(ref rbacv1.RoleRef) error {
	resource := "clusterroles"
	if ref.Kind == "Role" {
		resource = "roles"
	}
	return g.authorize("bind", resource, ref.Name, func() ([]rbacv1.PolicyRule, error) {
		rules, found := g.op.Env.Auth.Roles.RoleRules(ref, g.namespace)
		if !found {
			return nil, apierrors.NewNotFound(rbacv1.Resource(resource), ref.Name)
		}
		return rules, nil
	})
}

// authorize returns nil if the user has the verb on the role, or all permissions in rules.
func (g *grant) authorize(verb, resource, role string, rules func() ([]rbacv1.PolicyRule, error)) error {
	user := request.UserFrom(g.op.Context)
	if g.op.Env.Auth.Roles == nil || user == nil || slices.Contains(user.Groups, request.GroupMasters) {
		return nil // the server itself or a member of system:masters writes
	}
	decision, _, _ := g.op.Env.Auth.Authorizer.Authorize(g.op.Context, &authorizer.Attributes{
		User: user, Verb: verb, ResourceRequest: true, APIGroup: rbacv1.GroupName, APIVersion: "v1",
		Namespace: g.namespace, Resource: resource, Name: role,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	wanted, err := rules()
	if err != nil {
		return err
	}
	missing := g.missing(wanted)
	if len(missing) == 0 {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		user.Name, user.Groups, strings.Join(describe(missing), "\n"))
	if _, err := g.op.Env.Auth.Roles.Rules(user, g.namespace); err != nil {
		text += fmt.Sprintf("; resolution errors: [%v]", err)
	}
	return g.forbidden(text)
}

// missing returns the permissions in rules that the user does not have.
func (g *grant) missing(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	held, _ := g.op.Env.Auth.Roles.Rules(request.UserFrom(g.op.Context), g.namespace)
	return uncovered(held, rules)
}

func (g *grant) forbidden(text string) error {
	return apierrors.NewForbidden(rbacv1.Resource(g.resource), g.name, errors.New(text))
}

func everything() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}
