package admission

import (
	"strings"
	"time"
)

// Decision is a plugin's decision for one webhook, or for one policy with one binding and parameter. Policies
// and webhooks that do not match the request have no Decision.
type Decision struct {
	// Policy, Binding and Param identify the policy; Param has the form NAMESPACE/NAME.
	Policy  string `json:"policy,omitempty"`
	Binding string `json:"binding,omitempty"`
	Param   string `json:"param,omitempty"`
	// Configuration and Webhook identify the webhook.
	Configuration string `json:"configuration,omitempty"`
	Webhook       string `json:"webhook,omitempty"`
	// Took is the duration of the evaluation or call.
	Took time.Duration `json:"tookNanoseconds"`
	// Unmet is the match condition that excluded the request; empty if all were met.
	Unmet string `json:"unmetCondition,omitempty"`
	// Evaluations are the results of a policy's expressions.
	Evaluations []Evaluation `json:"evaluations,omitempty"`
	// Changes are the changed fields, at most 100.
	Changes []Change `json:"changes,omitempty"`
	// Failure is the error of the call, or the reason for the rejection. It does not imply that the request was
	// rejected: a failure may be ignored, and a rejection may be only a warning.
	Failure string `json:"failure,omitempty"`
}

// Evaluation is the result of one expression of a policy.
type Evaluation struct {
	// Field is the path of the expression in the policy.
	Field      string `json:"field"`
	Expression string `json:"expression"`
	// Valid is the result of a validation; nil if unknown or for a mutation. Message is the reason if Valid is
	// false.
	Valid   *bool         `json:"valid,omitempty"`
	Message string        `json:"message,omitempty"`
	Took    time.Duration `json:"tookNanoseconds"`
}

// DecisionRecorder records a Decision. Requests without an explanation use a nil *DecisionRecorder, whose
// methods have no effect. A DecisionRecorder is not safe for concurrent use.
type DecisionRecorder struct {
	Decision
	a      *Attributes
	start  time.Time
	before any
}

// StartDecision starts recording a decision of the current plugin. It returns nil if no explanation was
// requested. It is safe for concurrent use. In the validating pass, End may be called concurrently on different
// recorders.
func (a *Attributes) StartDecision(by Decision) *DecisionRecorder {
	if a.Explanation == nil {
		return nil
	}
	d := &DecisionRecorder{Decision: by, a: a}
	if a.Explanation.mutates {
		d.before = documentOf(a.Object)
	}
	d.start = time.Now()
	return d
}

// AddEvaluation adds the evaluation of an expression. It truncates the text of the expression.
func (d *DecisionRecorder) AddEvaluation(e Evaluation) {
	if d != nil {
		e.Expression = TruncateExpression(e.Expression)
		d.Evaluations = append(d.Evaluations, e)
	}
}

// SetUnmet records the match condition that excluded the request.
func (d *DecisionRecorder) SetUnmet(condition string) {
	if d != nil {
		d.Unmet = condition
	}
}

// End adds the decision to the explanation. err is the failure or rejection, or nil.
func (d *DecisionRecorder) End(err error) {
	if d == nil {
		return
	}
	d.Took = time.Since(d.start)
	if err != nil {
		d.Failure = err.Error()
	}
	if d.before != nil {
		d.Changes = changesOf(d.before, documentOf(d.a.Object))
	}
	d.a.Explanation.addDecision(d.Decision)
}

// maxExpression is the maximum size of a quoted expression, in bytes.
const maxExpression = 1 << 10

// TruncateExpression returns the trimmed expression for use in messages. If it exceeds 1 KiB, it is
// truncated at a rune boundary and ends with an ellipsis.
func TruncateExpression(expression string) string {
	expression = strings.TrimSpace(expression)
	if len(expression) <= maxExpression {
		return expression
	}
	return strings.ToValidUTF8(expression[:maxExpression], "") + "…"
}
