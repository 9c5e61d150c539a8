// Package rbac declares the resources of rbac.authorization.k8s.io and prevents privilege
// escalation by their authors. Package filters/authz/rbac authorizes requests with them.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version rbac.authorization.k8s.io/v1. Names may contain any path segment
// characters, such as "system:node".
func V1() builtin.Group {
	return builtin.Group{GroupVersion: rbacv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[rbacv1.ClusterRoleBinding]{
			Name: "clusterrolebindings", Kind: "ClusterRoleBinding",
			CreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName,
			Authorize: authorizeClusterRoleBinding, Default: defaultClusterRoleBinding, Validate: validateClusterRoleBinding,
			Columns: clusterRoleBindingColumns(),
		}),
		builtin.Resource(builtin.Row[rbacv1.ClusterRole]{
			Name: "clusterroles", Kind: "ClusterRole",
			CreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName,
			Authorize: authorizeClusterRole, Validate: validateClusterRole,
		}),
		builtin.Resource(builtin.Row[rbacv1.RoleBinding]{
			Name: "rolebindings", Kind: "RoleBinding", Namespaced: true,
			CreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName,
			Authorize: authorizeRoleBinding, Default: defaultRoleBinding, Validate: validateRoleBinding,
			Columns: roleBindingColumns(),
		}),
		builtin.Resource(builtin.Row[rbacv1.Role]{
			Name: "roles", Kind: "Role", Namespaced: true,
			CreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName,
			Authorize: authorizeRole, Validate: validateRole,
		}),
	}}
}
