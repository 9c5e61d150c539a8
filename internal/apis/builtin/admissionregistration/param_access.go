package admissionregistration

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

// The messages of a policy can contain field values of its parameters. The author of a policy therefore needs
// permission to read all objects of the parameter kind. The author of a binding needs permission to read the
// objects that the binding references.

func validateValidatingPolicyAccess(op *builtin.Operation, f validation.Field, p, old *admissionregistrationv1.ValidatingAdmissionPolicy) {
	var was *admissionregistrationv1.ParamKind
	if old != nil {
		was = old.Spec.ParamKind
	}
	validateParamKindAccess(op, f, p.Spec.ParamKind, was)
}

func validateMutatingPolicyAccess(op *builtin.Operation, f validation.Field, p, old *admissionregistrationv1.MutatingAdmissionPolicy) {
	var was *admissionregistrationv1.ParamKind
	if old != nil {
		was = old.Spec.ParamKind
	}
	validateParamKindAccess(op, f, p.Spec.ParamKind, was)
}

func validateParamKindAccess(op *builtin.Operation, f validation.Field, kind, was *admissionregistrationv1.ParamKind) {
	if kind == nil || was != nil && *was == *kind {
		return
	}
	asked := authorizer.Attributes{Namespace: "*", Name: "*"}
	if user := unauthorizedReader(op, kind, asked); user != nil {
		f.Child("spec").Child("paramKind").Forbidden(fmt.Sprintf(
			`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`, user, kind.Kind, kind.APIVersion))
	}
}

func validateValidatingBindingAccess(op *builtin.Operation, f validation.Field, b, old *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	if old != nil && old.Spec.PolicyName == b.Spec.PolicyName && !validation.Changed(b.Spec.ParamRef, old.Spec.ParamRef) {
		return
	}
	validateParamRefAccess(op, f, b.Spec.ParamRef, func() *admissionregistrationv1.ParamKind {
		if p := policyOf[*admissionregistrationv1.ValidatingAdmissionPolicy](op, "validatingadmissionpolicies", b.Spec.PolicyName); p != nil {
			return p.Spec.ParamKind
		}
		return nil
	})
}

func validateMutatingBindingAccess(op *builtin.Operation, f validation.Field, b, old *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	if old != nil && old.Spec.PolicyName == b.Spec.PolicyName && !validation.Changed(b.Spec.ParamRef, old.Spec.ParamRef) {
		return
	}
	validateParamRefAccess(op, f, b.Spec.ParamRef, func() *admissionregistrationv1.ParamKind {
		if p := policyOf[*admissionregistrationv1.MutatingAdmissionPolicy](op, "mutatingadmissionpolicies", b.Spec.PolicyName); p != nil {
			return p.Spec.ParamKind
		}
		return nil
	})
}

// validateParamRefAccess requires permission to read the parameters that ref references. If the policy does
// not exist, it requires permission to read all kinds.
func validateParamRefAccess(op *builtin.Operation, f validation.Field, ref *admissionregistrationv1.ParamRef, kindOf func() *admissionregistrationv1.ParamKind) {
	if ref == nil {
		return
	}
	asked := authorizer.Attributes{Namespace: ref.Namespace, Name: ref.Name}
	if user := unauthorizedReader(op, kindOf(), asked); user != nil {
		f.Child("spec").Child("paramRef").Forbidden(fmt.Sprintf(`user %v does not have "get" permission on the object referenced by paramRef`, user))
	}
}

// policyOf returns the policy of a binding, or nil if it cannot be read.
func policyOf[T codec.Object](op *builtin.Operation, resource, name string) T {
	var none T
	store := op.Env.Store(schema.GroupResource{Group: admissionregistrationv1.GroupName, Resource: resource})
	if store == nil {
		return none
	}
	record, err := store.Get(op.Context, types.NamespacedName{Name: name}, metav1.GetOptions{})
	if err != nil {
		return none
	}
	policy, err := codec.SharedAs[T](record)
	if err != nil {
		return none
	}
	return policy
}

// unauthorizedReader returns the user of the request if the user is not allowed to read the objects of kind, or of all
// kinds if kind is nil. It returns nil if the user is allowed to read them. It also returns nil for writes by
// the server itself, which have no user.
func unauthorizedReader(op *builtin.Operation, kind *admissionregistrationv1.ParamKind, asked authorizer.Attributes) *request.User {
	user := request.UserFrom(op.Context)
	if op.Env.Auth.Authorizer == nil || user == nil || slices.Contains(user.Groups, request.GroupMasters) {
		return nil
	}
	asked.User, asked.Verb, asked.ResourceRequest = user, "get", true
	asked.APIGroup, asked.APIVersion, asked.Resource = "*", "*", "*"
	if kind != nil {
		if gv, err := schema.ParseGroupVersion(kind.APIVersion); err == nil {
			asked.APIGroup, asked.APIVersion = gv.Group, gv.Version
			if resource := op.Env.Auth.ResourceFor(gv.WithKind(kind.Kind)); resource != "" {
				asked.Resource = resource
			}
		}
	}
	if decision, _, _ := op.Env.Auth.Authorizer.Authorize(op.Context, &asked); decision == authorizer.DecisionAllow {
		return nil
	}
	return user
}
