package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Kinds of roles that a binding can reference.
const (
	roleKind        = "Role"
	clusterRoleKind = "ClusterRole"
)

func validateRoleBinding(f validation.Field, binding, old *rbacv1.RoleBinding) {
	validateRoleRef(f.Child("roleRef"), &binding.RoleRef, roleKind, clusterRoleKind)
	for i := range binding.Subjects {
		validateSubject(f.Child("subjects").Index(i), &binding.Subjects[i])
	}
	if old != nil {
		validateSameRole(f.Child("roleRef"), binding.RoleRef, old.RoleRef)
	}
}

func validateClusterRoleBinding(f validation.Field, binding, old *rbacv1.ClusterRoleBinding) {
	validateRoleRef(f.Child("roleRef"), &binding.RoleRef, clusterRoleKind)
	for i := range binding.Subjects {
		subject, at := &binding.Subjects[i], f.Child("subjects").Index(i)
		validateSubject(at, subject)
		if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == "" { // there is no default namespace
			at.Child("namespace").Required("")
		}
	}
	if old != nil {
		validateSameRole(f.Child("roleRef"), binding.RoleRef, old.RoleRef)
	}
}

// validateSameRole rejects a change of the role, because a user who may bind one role to subjects might not be
// allowed to bind another role to them.
func validateSameRole(f validation.Field, role, old rbacv1.RoleRef) {
	if role != old {
		f.Invalid(role, "cannot change roleRef")
	}
}

func validateRoleRef(f validation.Field, role *rbacv1.RoleRef, kinds ...string) {
	validation.OneOf(f.Child("apiGroup"), role.APIGroup, rbacv1.GroupName)
	validation.OneOf(f.Child("kind"), role.Kind, kinds...)
	f.Child("name").RequiredPathSegment(role.Name)
}

// validateSubject validates a subject. The names of users and groups may contain any characters.
func validateSubject(f validation.Field, subject *rbacv1.Subject) {
	if subject.Name == "" {
		f.Child("name").Required("")
	}
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		if subject.Name != "" {
			f.Child("name").DNSSubdomain(subject.Name)
		}
		validation.OneOf(f.Child("apiGroup"), subject.APIGroup, "")
	case rbacv1.UserKind, rbacv1.GroupKind:
		validation.OneOf(f.Child("apiGroup"), subject.APIGroup, rbacv1.GroupName)
	default:
		validation.NotSupported(f.Child("kind"), subject.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}
