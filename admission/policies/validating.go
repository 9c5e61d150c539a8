package policies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/admission/match"
	"mainstay.dev/mainstay/cel/environment"
	"mainstay.dev/mainstay/cel/policy"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
)

// Validating is the plugin of ValidatingAdmissionPolicies.
type Validating struct{ *set }

var _ admission.Validator = Validating{}

// NewValidating returns the plugin, which knows no policy until it is told of some.
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

// Validate implements admission.Validator. Of several refusals the first is answered, but
// all policies are asked: what they warn of and write into the audit log is said.
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

// verdict is what the policies say of a request.
type verdict struct {
	*review
	config   *Config
	denied   *refusal // the first
	failures []auditFailure
}

// refusal is why a request is refused.
type refusal struct {
	policy, binding string // binding is "" for a fault of the policy itself
	message         string
	reason          metav1.StatusReason
}

// policy asks a policy with its bindings. The error is an API error.
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
		evaluation{definition: h.definition, programs: programs, in: in, verdict: v, binding: b, said: said}.run()
	}
	return nil
}

// misconfigured takes down that a policy, or a binding, cannot be used.
func (v *verdict) misconfigured(h *hook, b *binding, err error) {
	if h.ignore {
		return
	}
	if b == nil {
		v.deny(refusal{policy: h.name, message: "failed to configure policy: " + err.Error()})
		return
	}
	v.deny(refusal{policy: h.name, binding: b.name, message: "failed to configure binding: " + err.Error()})
}

func (v *verdict) deny(r refusal) {
	if v.denied == nil {
		v.denied = &r
	}
}

// close publishes what is to be audited, and returns the answer to a request that is
// refused.
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
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
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
	said     annotations
}

func (e evaluation) run() {
	ctx := e.verdict.ctx
	matches, _, err := e.programs.conditions.Match(ctx, e.in)
	switch {
	case err != nil && e.ignore:
		return
	case err != nil:
		e.conclude(0, outcome{message: err.Error(), err: err})
		return
	case !matches:
		return
	}
	budget := policy.Budget(environment.RuntimeBudget)
	outcomes := make([]outcome, len(e.programs.validations))
	for i := range outcomes {
		began := time.Now()
		outcomes[i] = e.validate(i, &budget)
		outcomes[i].took = time.Since(began)
		if errors.Is(outcomes[i].err, policy.ErrBudget) { // nothing more is evaluated, and nothing else counts
			e.conclude(0, outcomes[i])
			return
		}
	}
	for i, o := range outcomes {
		e.conclude(i, o)
	}
	e.annotate()
}

// outcome is that of a validation: valid, or a message that says why not. err is set
// where that is not known.
type outcome struct {
	valid   bool
	message string
	reason  metav1.StatusReason
	err     error
	took    time.Duration
}

func (e evaluation) validate(i int, budget *policy.Budget) outcome {
	value, err := e.programs.validations[i].check.Evaluate(e.verdict.ctx, e.in, budget)
	switch {
	case err != nil:
		return outcome{message: err.Error(), err: err}
	case value == types.True:
		return outcome{valid: true}
	}
	message, err := e.message(i, budget)
	if err != nil {
		return outcome{message: fmt.Sprintf("failed messageExpression: %s", err), err: fmt.Errorf("evaluate the message: %w", errors.Unwrap(err))}
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
	return outcome{message: message, reason: reason}
}

// message returns what the message expression of a validation gives; "" where there is
// none, or what it gives is no message. An error means that the budget is used up.
func (e evaluation) message(i int, budget *policy.Budget) (string, error) {
	program := e.programs.validations[i].message
	if program == nil {
		return "", nil
	}
	value, err := program.Evaluate(e.verdict.ctx, e.in, budget)
	if errors.Is(err, policy.ErrBudget) {
		return "", err
	}
	text, ok := value.(types.String)
	if err != nil || !ok {
		return "", nil
	}
	message := strings.TrimSpace(string(text))
	if len(message) > environment.MaxMessageSize || strings.Contains(message, "\n") {
		return "", nil
	}
	return message, nil
}

// conclude takes the actions of the binding for the outcome of a validation.
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
			e.verdict.deny(refusal{policy: e.name, binding: e.binding.name, message: o.message, reason: o.reason})
		case admissionregistrationv1.Audit:
			e.verdict.failures = append(e.verdict.failures, auditFailure{
				Message: o.message, Policy: e.name, Binding: e.binding.name, ExpressionIndex: index, ValidationActions: e.binding.actions,
			})
		case admissionregistrationv1.Warn:
			request.AddWarning(e.verdict.ctx, fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", e.name, e.binding.name, o.message))
		}
	}
}
