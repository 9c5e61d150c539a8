package rbac

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

func TestClusterRoles(t *testing.T) {
	t.Parallel()
	valid := func() *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			Rules:           []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{}}},
		}
	}
	validationtest.Rules[rbacv1.ClusterRole](validateClusterRole).Create(t, valid, []validationtest.Case[rbacv1.ClusterRole]{
		{Name: "URLs and names", Change: func(r *rbacv1.ClusterRole) { r.Rules[0].ResourceNames = []string{"n"} },
			Want: []string{`rules[0].nonResourceURLs: Invalid value: ["/healthz"]: rules cannot apply to both regular resources and non-resource URLs`}},
		{Name: "names of several resources", Change: func(r *rbacv1.ClusterRole) {
			r.Rules[0] = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"a", "b"}, ResourceNames: []string{"n"}}
		}},
		{Name: "an invalid selector", Change: func(r *rbacv1.ClusterRole) {
			r.AggregationRule.ClusterRoleSelectors[0].MatchLabels = map[string]string{"a": "-"}
		}, Want: []string{"aggregationRule.clusterRoleSelectors[0].matchLabels", "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector."}},
	})
}

func TestBindingUpdates(t *testing.T) {
	t.Parallel()
	stored := func() *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "system:a"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "a"}, {Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "a b"}},
		}
	}
	validationtest.Rules[rbacv1.RoleBinding](validateRoleBinding).Update(t, stored, []validationtest.Case[rbacv1.RoleBinding]{
		{Name: "other subjects", Change: func(b *rbacv1.RoleBinding) { b.Subjects = b.Subjects[1:] }},
		{Name: "another role", Change: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "b" }, Want: []string{"cannot change roleRef"}},
		{Name: "a bad name", Change: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "b/c" },
			Want: []string{`roleRef.name: Invalid value: "b/c": may not contain '/'`, "cannot change roleRef"}},
		{Name: "a bad account", Change: func(b *rbacv1.RoleBinding) { b.Subjects[0].Name = "Bad_" }, Want: []string{"subjects[0].name: Invalid value: \"Bad_\""}},
	})
}

func TestClusterRoleBindings(t *testing.T) {
	t.Parallel()
	valid := func() *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "a"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "a", Namespace: "n"}},
		}
	}
	validationtest.Rules[rbacv1.ClusterRoleBinding](validateClusterRoleBinding).Create(t, valid, []validationtest.Case[rbacv1.ClusterRoleBinding]{
		{Name: "a role", Change: func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Kind = "Role" },
			Want: []string{`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`}},
		{Name: "a service account without a namespace", Change: func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Namespace = "" },
			Want: []string{"subjects[0].namespace: Required value"}},
	})
}
