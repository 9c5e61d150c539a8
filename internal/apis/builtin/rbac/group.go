// Package rbac declares the resources of rbac.authorization.k8s.io and prevents privilege escalation by users
// who write them. Package filters/authz/rbac authorizes requests with them.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version rbac.authorization.k8s.io/v1. A name may be any valid path segment, for example
// "system:node".
func V1() builtin.Group {
	return builtin.Group{GroupVersion: rbacv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*rbacv1.ClusterRoleBinding]{
			Names:       builtin.Names{Plural: "clusterrolebindings", Kind: "ClusterRoleBinding"},
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName},
			Strategy: builtin.Strategy[*rbacv1.ClusterRoleBinding]{
				Default:   defaultClusterRoleBinding,
				Authorize: authorizeClusterRoleBinding, Validate: validateClusterRoleBinding,
			},
			Columns: clusterRoleBindingColumns(),
		}),
		builtin.Resource(builtin.Row[*rbacv1.ClusterRole]{
			Names:       builtin.Names{Plural: "clusterroles", Kind: "ClusterRole"},
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName},
			Strategy:    builtin.Strategy[*rbacv1.ClusterRole]{Authorize: authorizeClusterRole, Validate: validateClusterRole},
		}),
		builtin.Resource(builtin.Row[*rbacv1.RoleBinding]{
			Names: builtin.Names{Plural: "rolebindings", Kind: "RoleBinding"}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName},
			Strategy: builtin.Strategy[*rbacv1.RoleBinding]{
				Default:   defaultRoleBinding,
				Authorize: authorizeRoleBinding, Validate: validateRoleBinding,
			},
			Columns: roleBindingColumns(),
		}),
		builtin.Resource(builtin.Row[*rbacv1.Role]{
			Names: builtin.Names{Plural: "roles", Kind: "Role"}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{AllowCreateOnUpdate: true, ValidateName: path.ValidatePathSegmentName},
			Strategy:    builtin.Strategy[*rbacv1.Role]{Authorize: authorizeRole, Validate: validateRole},
		}),
	}}
}
