package admissionregistration

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/jsonpath"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/cel/policy"
)

const (
	maxAuditAnnotations = 20
	// maxAnnotationExpression is the maximum length of the value expression of an audit annotation, in bytes.
	maxAnnotationExpression = 5 << 10
)

// expressions validates the expressions of one policy in the order in which they are evaluated. If unchanged
// is set, it does not validate them again, because they are stored already.
type expressions struct {
	compiler  policy.Compiler
	params    bool
	unchanged bool
}

// scope returns the variables that expressions for validation and mutation can use.
func (e *expressions) scope() policy.Scope { return policy.Scope{Params: e.params, Authorizer: true} }

// check validates an expression and reports its errors. written is the expression as quoted in errors.
func (e *expressions) check(f validation.Field, text, written string, sees policy.Scope, results ...*cel.Type) {
	if e.unchanged {
		return
	}
	if err := compile(f, &e.compiler, text, sees, results...); err != nil {
		f.Invalid(written, err.Error())
	}
}

func validateValidatingPolicy(f validation.Field, p, old *admissionregistrationv1.ValidatingAdmissionPolicy) {
	validateNotStatic(f, p.Name, old == nil)
	f, spec := f.Child("spec"), &p.Spec
	e := expressions{params: spec.ParamKind != nil, unchanged: old != nil && !validation.Changed(*spec, old.Spec)}
	e.compiler.Variables = len(spec.Variables) > 0
	if spec.FailurePolicy == nil {
		f.Child("failurePolicy").Required("")
	}
	validateFailurePolicy(f.Child("failurePolicy"), spec.FailurePolicy)
	validateParamKind(f.Child("paramKind"), spec.ParamKind)
	validateMatchConstraints(f.Child("matchConstraints"), spec.MatchConstraints)
	if old == nil || validation.Changed(spec.ParamKind, old.Spec.ParamKind) || validation.Changed(spec.MatchConditions, old.Spec.MatchConditions) {
		validateMatchConditions(f.Child("matchConditions"), spec.MatchConditions, new(policy.Compiler), e.params)
	}
	e.validateVariables(f.Child("variables"), spec.Variables)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const either = "validations or auditAnnotations must contain at least one item"
		f.Child("validations").Required(either)
		f.Child("auditAnnotations").Required(either)
		return
	}
	for i := range spec.Validations {
		e.validateValidation(f.Child("validations").Index(i), &spec.Validations[i])
	}
	e.validateAnnotations(f.Child("auditAnnotations"), p.Name, spec.AuditAnnotations)
}

// validateMatchConstraints validates the required match constraints of a policy.
func validateMatchConstraints(f validation.Field, match *admissionregistrationv1.MatchResources) {
	if match == nil {
		f.Required("")
		return
	}
	validateMatchResources(f, match)
	if len(match.ResourceRules) == 0 {
		f.Child("resourceRules").Required("")
	}
}

func validateParamKind(f validation.Field, kind *admissionregistrationv1.ParamKind) {
	if kind == nil {
		return
	}
	validateAPIVersion(f.Child("apiVersion"), kind.APIVersion)
	if kind.Kind == "" {
		f.Child("kind").Required("")
	} else if problems := utilvalidation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(problems) > 0 {
		f.Child("kind").Invalid(kind.Kind, "may have mixed case, but should otherwise match: "+strings.Join(problems, ","))
	}
}

func validateAPIVersion(f validation.Field, text string) {
	if text == "" {
		f.Required("")
		return
	}
	group, version, ok := strings.Cut(text, "/")
	if !ok {
		group, version = "", text
	}
	if strings.Contains(version, "/") {
		f.Invalid(text, "unexpected GroupVersion string: "+text)
		return
	}
	if group != "" {
		if problems := utilvalidation.IsDNS1123Subdomain(group); len(problems) > 0 {
			f.Invalid(group, strings.Join(problems, ","))
		}
	}
	if version == "" {
		f.Invalid(text, "version must be specified")
	} else if problems := utilvalidation.IsDNS1035Label(version); len(problems) > 0 {
		f.Invalid(version, strings.Join(problems, ","))
	}
}

func (e *expressions) validateVariables(f validation.Field, variables []admissionregistrationv1.Variable) {
	for i := range variables {
		v, at := &variables[i], f.Index(i)
		if strings.TrimSpace(v.Name) == "" {
			at.Child("name").Required("name is not specified")
		} else if !isIdentifier(v.Name) {
			at.Child("name").Invalid(v.Name, "must be a valid CEL identifier")
		}
		if strings.TrimSpace(v.Expression) == "" {
			at.Child("expression").Required("expression is not specified")
			continue
		}
		if e.unchanged {
			continue
		}
		if err := e.compiler.Declare(v.Name, v.Expression, e.scope()); err != nil {
			at.Child("expression").Invalid(v.Expression, err.Error())
		}
	}
}

// isIdentifier reports whether name can be used as the name of a variable in expressions.
func isIdentifier(name string) bool {
	switch name {
	case "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
		"loop", "package", "namespace", "return", "var", "void", "while":
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func (e *expressions) validateValidation(f validation.Field, v *admissionregistrationv1.Validation) {
	if strings.TrimSpace(v.Expression) == "" {
		f.Child("expression").Required("expression is not specified")
	} else {
		e.check(f.Child("expression"), v.Expression, v.Expression, e.scope(), cel.BoolType)
	}
	if strings.TrimSpace(v.MessageExpression) != "" {
		sees := e.scope()
		sees.Authorizer = false
		e.check(f.Child("messageExpression"), v.MessageExpression, v.MessageExpression, sees, cel.StringType)
	} else if v.MessageExpression != "" {
		f.Child("messageExpression").Invalid(v.MessageExpression, "must be non-empty if specified")
	}
	if message := strings.TrimSpace(v.Message); message == "" && v.Message != "" {
		f.Child("message").Invalid(v.Message, "must be non-empty if specified")
	} else if strings.ContainsAny(message, "\n\r") {
		f.Child("message").Invalid(v.Message, "must not contain line breaks")
	}
	if v.Reason != nil {
		validation.OneOf(f.Child("reason"), *v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)
	}
}

// validateAnnotations validates the audit annotations of a policy. The server prefixes their keys with the
// name of the policy.
func (e *expressions) validateAnnotations(f validation.Field, policyName string, annotations []admissionregistrationv1.AuditAnnotation) {
	if len(annotations) > maxAuditAnnotations {
		f.Invalid(annotations, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations))
	}
	keys := validation.NewDuplicates[string](len(annotations))
	for i := range annotations {
		a, at := &annotations[i], f.Index(i)
		if policyName == "" {
			at.Child("key").Invalid(a.Key, "requires metadata.name be non-empty")
		} else {
			at.Child("key").QualifiedName(policyName + "/" + a.Key)
		}
		if keys.IsDuplicate(a.Key) {
			at.Child("key").Duplicate(a.Key)
		}
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			at.Child("valueExpression").Required("valueExpression is not specified")
		case len(text) > maxAnnotationExpression:
			at.Child("valueExpression").Required(fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression))
		default:
			e.check(at.Child("valueExpression"), text, a.ValueExpression, e.scope(), cel.StringType, cel.NullType)
		}
	}
}

func validateValidatingPolicyStatus(f validation.Field, p, _ *admissionregistrationv1.ValidatingAdmissionPolicy) {
	f = f.Child("status")
	if checked := p.Status.TypeChecking; checked != nil {
		for i := range checked.ExpressionWarnings {
			validateExpressionWarning(f.Child("typeChecking").Child("expressionWarnings").Index(i), &checked.ExpressionWarnings[i])
		}
	}
	if conditions := p.Status.Conditions; len(conditions) > 0 {
		f.Add(metav1validation.ValidateConditions(conditions, f.Child("conditions").Path())...)
	}
}

func validateExpressionWarning(f validation.Field, warning *admissionregistrationv1.ExpressionWarning) {
	if warning.Warning == "" {
		f.Child("warning").Required("")
	}
	ref := strings.TrimSpace(warning.FieldRef)
	if ref == "" {
		f.Child("fieldRef").Required("")
	} else if err := jsonpath.New("spec").Parse("{" + ref + "}"); err != nil {
		f.Child("fieldRef").Invalid(ref, "invalid JSONPath: "+err.Error())
	}
}
