package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func defaultClusterRoleBinding(binding *rbacv1.ClusterRoleBinding) {
	defaultBinding(&binding.RoleRef, binding.Subjects)
}

func defaultRoleBinding(binding *rbacv1.RoleBinding) {
	defaultBinding(&binding.RoleRef, binding.Subjects)
}

// defaultBinding sets the API groups of roles, users and groups. The group of ServiceAccounts is
// the core group, "".
func defaultBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject) {
	builtin.SetDefaultValue(&role.APIGroup, rbacv1.GroupName)
	for i := range subjects {
		if s := &subjects[i]; s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind {
			builtin.SetDefaultValue(&s.APIGroup, rbacv1.GroupName)
		}
	}
}
