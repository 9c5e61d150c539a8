package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateValidatingBinding(f validation.Field, b, old *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	validateNotStatic(f, b.Name, old == nil)
	f, spec := f.Child("spec"), &b.Spec
	validatePolicyName(f.Child("policyName"), spec.PolicyName)
	validateParamRef(f.Child("paramRef"), spec.ParamRef)
	validateMatchResources(f.Child("matchResources"), spec.MatchResources)
	validateActions(f.Child("validationActions"), spec.ValidationActions)
}

func validateMutatingBinding(f validation.Field, b, old *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	validateNotStatic(f, b.Name, old == nil)
	f, spec := f.Child("spec"), &b.Spec
	validatePolicyName(f.Child("policyName"), spec.PolicyName)
	validateParamRef(f.Child("paramRef"), spec.ParamRef)
	validateMatchResources(f.Child("matchResources"), spec.MatchResources)
	validateMutable(f.Child("matchResources"), spec.MatchResources)
}

func validatePolicyName(f validation.Field, name string) {
	if name == "" {
		f.Required("")
		return
	}
	f.DNSSubdomain(name)
}

func validateActions(f validation.Field, actions []admissionregistrationv1.ValidationAction) {
	if len(actions) == 0 {
		f.Required("at least one validation action is required")
	}
	seen := validation.NewDuplicates[admissionregistrationv1.ValidationAction](len(actions))
	for i, action := range actions {
		validation.OneOf(f.Index(i), action, admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)
		if seen.IsDuplicate(action) {
			f.Index(i).Duplicate(action)
		}
	}
	if seen.Has(admissionregistrationv1.Deny) && seen.Has(admissionregistrationv1.Warn) {
		f.Invalid(actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
}

// validateParamRef validates a reference to policy parameters. The reference selects objects either by name or
// by labels.
func validateParamRef(f validation.Field, ref *admissionregistrationv1.ParamRef) {
	if ref == nil {
		return
	}
	if ref.Name != "" {
		f.Child("name").InvalidFor(ref.Name, path.IsValidPathSegmentName(ref.Name))
	}
	f.Child("selector").LabelSelector(ref.Selector)
	switch {
	case ref.Name != "" && ref.Selector != nil:
		f.Child("name").Forbidden("name and selector are mutually exclusive")
		f.Child("selector").Forbidden("name and selector are mutually exclusive")
	case ref.Name == "" && ref.Selector == nil:
		f.Required("one of name or selector must be specified")
	}
	if action := ref.ParameterNotFoundAction; action == nil || *action == "" {
		f.Child("parameterNotFoundAction").Required("")
	} else {
		validation.OneOf(f.Child("parameterNotFoundAction"), *action, admissionregistrationv1.DenyAction, admissionregistrationv1.AllowAction)
	}
}
