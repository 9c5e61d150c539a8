package rbac

import (
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// bindingDefinitions returns the columns of bindings. The descriptions contain roles, which describes the roles
// that can be referenced, and kind, the kind of the binding. As in kube-apiserver, the description of the
// column Role comes from v1beta1.
func bindingDefinitions(roles, kind string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		builtin.NameColumn(),
		builtin.Column("Role", "string", "roleRef can "+roles+" in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error."),
		builtin.AgeColumn(),
		builtin.WideColumn("Users", "string", "Users in the "+kind),
		builtin.WideColumn("Groups", "string", "Groups in the "+kind),
		builtin.WideColumn("ServiceAccounts", "string", "ServiceAccounts in the "+kind),
	}
}

func bindingCells(metadata *metav1.ObjectMeta, role *rbacv1.RoleRef, subjects []rbacv1.Subject, now time.Time) []any {
	users, groups, accounts := subjectTexts(subjects)
	return []any{metadata.Name, role.Kind + "/" + role.Name, builtin.Age(metadata.CreationTimestamp, now), users, groups, accounts}
}

func clusterRoleBindingColumns() *builtin.Columns[*rbacv1.ClusterRoleBinding] {
	return &builtin.Columns[*rbacv1.ClusterRoleBinding]{
		Definitions: bindingDefinitions("only reference a ClusterRole", "clusterRoleBinding"),
		Cells: func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
			return bindingCells(&b.ObjectMeta, &b.RoleRef, b.Subjects, now)
		},
	}
}

func roleBindingColumns() *builtin.Columns[*rbacv1.RoleBinding] {
	return &builtin.Columns[*rbacv1.RoleBinding]{
		Definitions: bindingDefinitions("reference a Role in the current namespace or a ClusterRole", "roleBinding"),
		Cells: func(b *rbacv1.RoleBinding, now time.Time) []any {
			return bindingCells(&b.ObjectMeta, &b.RoleRef, b.Subjects, now)
		},
	}
}

func subjectTexts(subjects []rbacv1.Subject) (users, groups, accounts string) {
	var user, group, account []string
	for i := range subjects {
		switch s := &subjects[i]; s.Kind {
		case rbacv1.UserKind:
			user = append(user, s.Name)
		case rbacv1.GroupKind:
			group = append(group, s.Name)
		case rbacv1.ServiceAccountKind:
			account = append(account, s.Namespace+"/"+s.Name)
		}
	}
	return strings.Join(user, ", "), strings.Join(group, ", "), strings.Join(account, ", ")
}
