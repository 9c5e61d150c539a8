package policies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	celtypes "github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Validating is the admission plugin for ValidatingAdmissionPolicies. It is safe for concurrent
// use.
type Validating struct{ *policySet }

var _ admission.Validator = Validating{}

// NewValidating returns the plugin, which has no policies yet. It retains config.
func NewValidating(config *Config) Validating {
	return Validating{newSet(config, validatingPolicies, validatingDefinition, validatingBinding)}
}

func validatingDefinition(p *admissionregistrationv1.ValidatingAdmissionPolicy) *definition {
	return &definition{
		name: p.Name, matcher: match.New(p.Spec.MatchConstraints), paramKind: p.Spec.ParamKind, ignore: ignores(p.Spec.FailurePolicy),
		conditions: p.Spec.MatchConditions, variables: p.Spec.Variables, validating: &p.Spec,
	}
}

func validatingBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) *binding {
	return &binding{
		name: b.Name, policy: b.Spec.PolicyName, matcher: match.New(b.Spec.MatchResources), paramRef: b.Spec.ParamRef, actions: b.Spec.ValidationActions,
	}
}

// Name implements admission.Plugin.
func (Validating) Name() string { return "ValidatingAdmissionPolicy" }

// Handles implements admission.Plugin.
func (Validating) Handles(admission.Operation) bool { return true }

// Validate implements admission.Validator. It returns the first rejection, but evaluates all policies for their
// warnings and audit annotations.
func (p Validating) Validate(ctx context.Context, a *admission.Attributes) error {
	policies := p.candidates(&a.Request)
	if len(policies) == 0 {
		return nil
	}
	v := validator{review: p.config.review(ctx, p.config.subject(a)), config: p.config}
	for _, h := range policies {
		if err := v.evaluatePolicy(h); err != nil {
			return err
		}
	}
	return v.result()
}

// validator evaluates all policies for one request.
type validator struct {
	*review
	config    *Config
	rejection *rejection // the first rejection
	failures  []auditFailure
}

// evaluatePolicy evaluates a policy with each of its bindings. The error is an API error that the policy did
// not cause.
func (v *validator) evaluatePolicy(h *boundPolicy) error {
	matched, err := h.matcher.Match(v.ctx, v.Subject)
	if err != nil {
		v.misconfigured(h, nil, err)
		return nil
	}
	if matched == nil {
		return nil
	}
	auditAnnotations := annotations{}
	for _, b := range h.bindings {
		if err := v.evaluateBinding(h, b, matched, auditAnnotations); err != nil {
			return err
		}
	}
	auditAnnotations.publish(v.ctx, v.Attributes, h.name)
	return nil
}

func (v *validator) evaluateBinding(h *boundPolicy, b *binding, matched *rest.Resource, auditAnnotations annotations) error {
	switch bound, err := b.matcher.Match(v.ctx, v.Subject); {
	case err != nil:
		v.misconfigured(h, b, err)
		return nil
	case bound == nil:
		return nil
	}
	params, err := v.config.params(v.ctx, &v.Request, h.paramKind, b.paramRef)
	if err != nil {
		v.misconfigured(h, b, err)
		return nil
	}
	programs := h.programs(v.config.Programs)
	for _, param := range params {
		in, err := v.input(matched, param.document, programs.variables)
		if err != nil {
			return err
		}
		e := evaluation{definition: h.definition, programs: programs, in: in, validator: v, binding: b, param: param.name, auditAnnotations: auditAnnotations}
		e.decision = v.startDecision(h.name, b.name, param.name)
		e.decision.End(e.run())
	}
	return nil
}

// misconfigured records that a policy is invalid or, if b is not nil, that its binding b is invalid.
func (v *validator) misconfigured(h *boundPolicy, b *binding, err error) {
	what, name := "policy", ""
	if b != nil {
		what, name = "binding", b.name
	}
	err = fmt.Errorf("failed to configure %s: %w", what, err)
	v.startDecision(h.name, name, types.NamespacedName{}).End(err)
	if !h.ignore {
		v.deny(rejection{policy: h.name, binding: name, message: err.Error()})
	}
}

func (v *validator) deny(r rejection) {
	if v.rejection == nil {
		v.rejection = &r
	}
}

// result publishes the audit annotations and returns the error of the first rejection, or nil.
func (v *validator) result() error {
	v.publishFailures()
	if v.rejection == nil {
		return nil
	}
	return v.rejection.status(v.Attributes)
}

func (r *rejection) status(a *admission.Attributes) error {
	message := fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", r.policy, r.message)
	if r.binding != "" {
		message = fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", r.policy, r.binding, r.message)
	}
	err := a.Forbidden(errors.New(message))
	err.ErrStatus.Reason = metav1.StatusReasonInvalid
	if r.reason != "" {
		err.ErrStatus.Reason = r.reason
	}
	err.ErrStatus.Code = codeOf(err.ErrStatus.Reason)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, r.causes(Validating{}.Name(), message)...)
	return err
}

func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// evaluation is the evaluation of a policy with one binding and one parameter.
type evaluation struct {
	*definition
	programs         *compiled
	in               *policy.Input
	validator        *validator
	binding          *binding
	param            types.NamespacedName
	auditAnnotations annotations
	decision         *admission.DecisionRecorder // nil if no explanation was requested
}

// run evaluates the policy and applies the results. If an evaluation failed, it returns the error so that it
// can be included in the explanation.
func (e evaluation) run() error {
	ctx := e.validator.ctx
	matches, failed, err := e.programs.conditions.Match(ctx, e.in)
	switch {
	case err != nil && e.ignore:
		return err
	case err != nil:
		e.enforce(0, outcome{message: err.Error(), err: err, location: location{list: "matchConditions"}})
		return err
	case !matches:
		e.decision.SetUnmet(failed)
		return nil
	}
	budget := policy.Budget(environment.RuntimeBudget)
	outcomes := make([]outcome, len(e.programs.validations))
	for i := range outcomes {
		began := time.Now()
		outcomes[i] = e.validate(i, &budget)
		outcomes[i].took = time.Since(began)
		e.explain(i, &outcomes[i])
		if errors.Is(outcomes[i].err, policy.ErrBudget) { // the evaluation ends, and other results are ignored
			e.enforce(0, outcomes[i])
			return outcomes[i].err
		}
	}
	for i, o := range outcomes {
		e.enforce(i, o)
	}
	e.annotate()
	return nil
}

// outcome is the result of a validation. If valid is false, message is the message of the rejection. err is set
// if the evaluation failed. location is the location of the expression.
type outcome struct {
	valid    bool
	message  string
	reason   metav1.StatusReason
	err      error
	location location
	took     time.Duration
}

// explain adds the outcome of a validation to the explanation, if one was requested.
func (e evaluation) explain(i int, o *outcome) {
	if e.decision == nil {
		return
	}
	at := location{list: "validations", index: i, member: "expression"}
	result := admission.Evaluation{Field: at.String(), Expression: e.validating.Validations[i].Expression, Message: o.message, Took: o.took}
	if o.err == nil {
		result.Valid = &o.valid
	}
	e.decision.AddEvaluation(result)
}

func (e evaluation) validate(i int, budget *policy.Budget) outcome {
	programs := &e.programs.validations[i]
	at := location{"validations", i, "expression", programs.check}
	value, err := programs.check.Evaluate(e.validator.ctx, e.in, budget)
	switch {
	case err != nil:
		return outcome{message: err.Error(), err: err, location: at}
	case value == celtypes.True:
		return outcome{valid: true}
	}
	message, err := e.message(i, budget)
	if err != nil {
		at = location{"validations", i, "messageExpression", programs.message}
		return outcome{message: fmt.Sprintf("failed messageExpression: %s", err), err: fmt.Errorf("evaluate the message: %w", errors.Unwrap(err)), location: at}
	}
	spec := &e.validating.Validations[i]
	if message == "" {
		message = strings.TrimSpace(spec.Message)
	}
	if message == "" {
		message = "failed expression: " + strings.TrimSpace(spec.Expression)
	}
	reason := metav1.StatusReasonInvalid
	if spec.Reason != nil {
		reason = *spec.Reason
	}
	return outcome{message: message, reason: reason, location: at}
}

// message returns the result of a message expression, or "" if there is no expression or its result is invalid.
// It returns an error only if the budget is exceeded.
func (e evaluation) message(i int, budget *policy.Budget) (string, error) {
	program := e.programs.validations[i].message
	if program == nil {
		return "", nil
	}
	value, err := program.Evaluate(e.validator.ctx, e.in, budget)
	if errors.Is(err, policy.ErrBudget) {
		return "", err
	}
	text, ok := value.(celtypes.String)
	if err != nil || !ok {
		return "", nil
	}
	message := strings.TrimSpace(string(text))
	if len(message) > environment.MaxMessageSize || strings.Contains(message, "\n") {
		return "", nil
	}
	return message, nil
}

// enforce applies the binding's actions to the outcome of a validation.
func (e evaluation) enforce(index int, o outcome) {
	metrics := e.validator.config.Metrics
	switch {
	case o.valid:
		return
	case o.err != nil && e.ignore:
		metrics.recordValidation(e.name, e.binding.name, "allow", o.err, o.took)
		return
	}
	for _, action := range e.binding.actions {
		metrics.recordValidation(e.name, e.binding.name, strings.ToLower(string(action)), o.err, o.took)
		switch action {
		case admissionregistrationv1.Deny:
			e.deny(o)
		case admissionregistrationv1.Audit:
			e.validator.failures = append(e.validator.failures, auditFailure{
				Message: o.message, Policy: e.name, Binding: e.binding.name, ExpressionIndex: index, ValidationActions: e.binding.actions,
			})
		case admissionregistrationv1.Warn:
			request.AddWarning(e.validator.ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", e.name, e.binding.name, o.message))
		}
	}
}

func (e evaluation) deny(o outcome) {
	e.validator.deny(rejection{
		policy: e.name, binding: e.binding.name, param: e.param, message: o.message, reason: o.reason, location: o.location, err: o.err,
	})
}
