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

// Validating is the plugin of ValidatingAdmissionPolicies.
type Validating struct{ *set }

var _ admission.Validator = Validating{}

// NewValidating returns the plugin without policies.
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

// Validate implements admission.Validator. The response contains the first rejection, but all
// policies are evaluated for their warnings and audit annotations.
func (p Validating) Validate(ctx context.Context, a *admission.Attributes) error {
	hooks := p.candidates(&a.Request)
	if len(hooks) == 0 {
		return nil
	}
	v := verdict{review: p.config.review(ctx, p.config.subject(a)), config: p.config}
	for _, h := range hooks {
		if err := v.policy(h); err != nil {
			return err
		}
	}
	return v.close()
}

// verdict is the result of all policies for a request.
type verdict struct {
	*review
	config   *Config
	denied   *refusal // the first
	failures []auditFailure
}

// policy evaluates a policy with its bindings. The error is an API error.
func (v *verdict) policy(h *hook) error {
	shown, err := h.matcher.Match(v.ctx, v.Subject)
	if err != nil {
		v.misconfigured(h, nil, err)
		return nil
	}
	if shown == nil {
		return nil
	}
	said := annotations{}
	for _, b := range h.bindings {
		if err := v.binding(h, b, shown, said); err != nil {
			return err
		}
	}
	said.publish(v.ctx, v.Attributes, h.name)
	return nil
}

func (v *verdict) binding(h *hook, b *binding, shown *rest.Resource, said annotations) error {
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
		in, err := v.input(shown, param.document, programs.variables)
		if err != nil {
			return err
		}
		e := evaluation{definition: h.definition, programs: programs, in: in, verdict: v, binding: b, param: param.name, said: said}
		e.deciding = v.decide(h.name, b.name, param.name)
		e.deciding.End(e.run())
	}
	return nil
}

// misconfigured records an invalid policy or binding.
func (v *verdict) misconfigured(h *hook, b *binding, err error) {
	what, name := "policy", ""
	if b != nil {
		what, name = "binding", b.name
	}
	err = fmt.Errorf("failed to configure %s: %w", what, err)
	v.decide(h.name, name, types.NamespacedName{}).End(err)
	if !h.ignore {
		v.deny(refusal{policy: h.name, binding: name, message: err.Error()})
	}
}

func (v *verdict) deny(r refusal) {
	if v.denied == nil {
		v.denied = &r
	}
}

// close publishes the audit annotations and returns the rejection, if any.
func (v *verdict) close() error {
	v.publishFailures()
	if v.denied == nil {
		return nil
	}
	return v.denied.status(v.Attributes)
}

func (r *refusal) status(a *admission.Attributes) error {
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

// evaluation is that of a policy, with a binding and a parameter of it.
type evaluation struct {
	*definition
	programs *compiled
	in       *policy.Input
	verdict  *verdict
	binding  *binding
	param    types.NamespacedName
	said     annotations
	deciding *admission.DecisionRecorder // nil without an explanation
}

// run evaluates the policy. The error is why it cannot be; it is concluded already.
func (e evaluation) run() error {
	ctx := e.verdict.ctx
	matches, failed, err := e.programs.conditions.Match(ctx, e.in)
	switch {
	case err != nil && e.ignore:
		return err
	case err != nil:
		e.conclude(0, outcome{message: err.Error(), err: err, at: place{list: "matchConditions"}})
		return err
	case !matches:
		e.deciding.SetUnmet(failed)
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
			e.conclude(0, outcomes[i])
			return outcomes[i].err
		}
	}
	for i, o := range outcomes {
		e.conclude(i, o)
	}
	e.annotate()
	return nil
}

// outcome is the result of a validation: valid, or the message of the rejection. err is set if the
// evaluation failed. at is the location of the expression.
type outcome struct {
	valid   bool
	message string
	reason  metav1.StatusReason
	err     error
	at      place
	took    time.Duration
}

// explain records the outcome of a validation for the explanation.
func (e evaluation) explain(i int, o *outcome) {
	if e.deciding == nil {
		return
	}
	at := place{list: "validations", index: i, member: "expression"}
	said := admission.Evaluation{Field: at.String(), Expression: e.validating.Validations[i].Expression, Message: o.message, Took: o.took}
	if o.err == nil {
		said.Valid = &o.valid
	}
	e.deciding.AddEvaluation(said)
}

func (e evaluation) validate(i int, budget *policy.Budget) outcome {
	programs := &e.programs.validations[i]
	at := place{"validations", i, "expression", programs.check}
	value, err := programs.check.Evaluate(e.verdict.ctx, e.in, budget)
	switch {
	case err != nil:
		return outcome{message: err.Error(), err: err, at: at}
	case value == celtypes.True:
		return outcome{valid: true}
	}
	message, err := e.message(i, budget)
	if err != nil {
		at = place{"validations", i, "messageExpression", programs.message}
		return outcome{message: fmt.Sprintf("failed messageExpression: %s", err), err: fmt.Errorf("evaluate the message: %w", errors.Unwrap(err)), at: at}
	}
	written := &e.validating.Validations[i]
	if message == "" {
		message = strings.TrimSpace(written.Message)
	}
	if message == "" {
		message = "failed expression: " + strings.TrimSpace(written.Expression)
	}
	reason := metav1.StatusReasonInvalid
	if written.Reason != nil {
		reason = *written.Reason
	}
	return outcome{message: message, reason: reason, at: at}
}

// message returns the result of a message expression; "" if there is none or the result is invalid.
// An error means that the budget is exceeded.
func (e evaluation) message(i int, budget *policy.Budget) (string, error) {
	program := e.programs.validations[i].message
	if program == nil {
		return "", nil
	}
	value, err := program.Evaluate(e.verdict.ctx, e.in, budget)
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

// conclude applies the binding's actions to the outcome of a validation.
func (e evaluation) conclude(index int, o outcome) {
	metrics := e.verdict.config.Metrics
	switch {
	case o.valid:
		return
	case o.err != nil && e.ignore:
		metrics.validated(e.name, e.binding.name, "allow", o.err, o.took)
		return
	}
	for _, action := range e.binding.actions {
		metrics.validated(e.name, e.binding.name, strings.ToLower(string(action)), o.err, o.took)
		switch action {
		case admissionregistrationv1.Deny:
			e.deny(o)
		case admissionregistrationv1.Audit:
			e.verdict.failures = append(e.verdict.failures, auditFailure{
				Message: o.message, Policy: e.name, Binding: e.binding.name, ExpressionIndex: index, ValidationActions: e.binding.actions,
			})
		case admissionregistrationv1.Warn:
			request.AddWarning(e.verdict.ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", e.name, e.binding.name, o.message))
		}
	}
}

func (e evaluation) deny(o outcome) {
	e.verdict.deny(refusal{
		policy: e.name, binding: e.binding.name, param: e.param, message: o.message, reason: o.reason, at: o.at, err: o.err,
	})
}
