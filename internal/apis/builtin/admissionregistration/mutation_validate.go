package admissionregistration

import (
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/cel/policy"
)

func validateMutatingPolicy(f validation.Field, p, old *admissionregistrationv1.MutatingAdmissionPolicy) {
	validateNotStatic(f, p.Name, old == nil)
	f, spec := f.Child("spec"), &p.Spec
	e := expressions{params: spec.ParamKind != nil, unchanged: old != nil && !validation.Changed(*spec, old.Spec)}
	e.compiler.Variables = true
	if spec.FailurePolicy == nil {
		f.Child("failurePolicy").Required("")
	}
	validateFailurePolicy(f.Child("failurePolicy"), spec.FailurePolicy)
	validateParamKind(f.Child("paramKind"), spec.ParamKind)
	validateMatchConstraints(f.Child("matchConstraints"), spec.MatchConstraints)
	validateMutable(f.Child("matchConstraints"), spec.MatchConstraints)
	if old == nil || validation.Changed(spec.ParamKind, old.Spec.ParamKind) || validation.Changed(spec.MatchConditions, old.Spec.MatchConditions) {
		validateMatchConditions(f.Child("matchConditions"), spec.MatchConditions, new(policy.Compiler), e.params)
	}
	e.validateVariables(f.Child("variables"), spec.Variables)
	if len(spec.Mutations) == 0 {
		f.Child("mutations").Required("mutations must contain at least one item")
	}
	for i := range spec.Mutations {
		e.validateMutation(f.Child("mutations").Index(i), &spec.Mutations[i])
	}
	if spec.ReinvocationPolicy == "" {
		f.Child("reinvocationPolicy").Required("")
	} else {
		validation.OneOf(f.Child("reinvocationPolicy"), spec.ReinvocationPolicy,
			admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	}
}

// validateMutable rejects rules for the operation DELETE, because a deletion does not mutate the object.
func validateMutable(f validation.Field, match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	for i := range match.ResourceRules {
		for _, operation := range match.ResourceRules[i].Operations {
			validation.OneOf(f.Child("resourceRules").Child("operations"), operation, admissionregistrationv1.OperationAll,
				admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Update)
		}
	}
}

// validateMutation requires the field that belongs to the patch type, and rejects the field of the other patch
// type.
func (e *expressions) validateMutation(f validation.Field, m *admissionregistrationv1.Mutation) {
	patch, apply := f.Child("jsonPatch"), f.Child("applyConfiguration")
	switch m.PatchType {
	case "":
		f.Child("patchType").Required("")
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			patch.Required("must be specified when patchType is JSONPatch")
		} else {
			e.validateMutationExpression(patch.Child("expression"), m.JSONPatch.Expression, policy.PatchesType())
		}
		if m.ApplyConfiguration != nil {
			apply.Invalid("{applyConfiguration}", "must not be specified when patchType is JSONPatch")
		}
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			apply.Required("must be specified when patchType is ApplyConfiguration")
		} else {
			e.validateMutationExpression(apply.Child("expression"), m.ApplyConfiguration.Expression, policy.ObjectType())
		}
		if m.JSONPatch != nil {
			patch.Invalid("{jsonPatch}", "must not be specified when patchType is ApplyConfiguration")
		}
	default:
		validation.NotSupported(f.Child("patchType"), m.PatchType,
			admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)
	}
}

func (e *expressions) validateMutationExpression(f validation.Field, written string, result *cel.Type) {
	text := strings.TrimSpace(written)
	if text == "" {
		f.Required("")
		return
	}
	sees := e.scope()
	sees.Patches = true
	e.check(f, text, text, sees, result)
}
