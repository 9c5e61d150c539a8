package admission

import (
	"strings"
	"time"
)

// Decision is what a plugin did for one policy, with a binding and a parameter, or for
// one webhook. Those whose rules and selectors do not match a request have none.
type Decision struct {
	// Policy, Binding and Param say which policy it was; Param is as NAMESPACE/NAME.
	Policy  string `json:"policy,omitempty"`
	Binding string `json:"binding,omitempty"`
	Param   string `json:"param,omitempty"`
	// Configuration and Webhook say which webhook it was.
	Configuration string        `json:"configuration,omitempty"`
	Webhook       string        `json:"webhook,omitempty"`
	Took          time.Duration `json:"tookNanoseconds"`
	// Unmet is the match condition because of which nothing was done.
	Unmet string `json:"unmetCondition,omitempty"`
	// Evaluations are those of a policy's validations or mutations.
	Evaluations []Evaluation `json:"evaluations,omitempty"`
	// Changes are the fields that it changed, at most 100.
	Changes []Change `json:"changes,omitempty"`
	// Failure is why it could not be asked, or what it refuses the request with. A
	// failure may be ignored, and a refusal only be warned of.
	Failure string `json:"failure,omitempty"`
}

// Evaluation is that of an expression.
type Evaluation struct {
	// Field is where the expression stands in the policy.
	Field      string `json:"field"`
	Expression string `json:"expression"`
	// Valid is what a validation comes to, nil where that is not known, or the
	// expression is none. Message is why it is not.
	Valid   *bool         `json:"valid,omitempty"`
	Message string        `json:"message,omitempty"`
	Took    time.Duration `json:"tookNanoseconds"`
}

// Deciding is a Decision in the making. All its methods do nothing of nil, which is that
// of a request that nobody asks about.
type Deciding struct {
	Decision
	a      *Attributes
	start  time.Time
	before any
}

// Decide begins a decision of the plugin that is being called; nil where nobody asks. It
// is safe for concurrent use, and so is End, of plugins that change nothing.
func (a *Attributes) Decide(by Decision) *Deciding {
	if a.Explanation == nil {
		return nil
	}
	d := &Deciding{Decision: by, a: a}
	if a.Explanation.mutates {
		d.before = documentOf(a.Object)
	}
	d.start = time.Now()
	return d
}

// Evaluated adds an evaluation.
func (d *Deciding) Evaluated(e Evaluation) {
	if d != nil {
		e.Expression = Shortened(e.Expression)
		d.Evaluations = append(d.Evaluations, e)
	}
}

// NotMet records that nothing is done, because a match condition is not met.
func (d *Deciding) NotMet(condition string) {
	if d != nil {
		d.Unmet = condition
	}
}

// End keeps the decision. err is why it failed, or refuses.
func (d *Deciding) End(err error) {
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
	d.a.Explanation.decided(d.Decision)
}

// maxExpression bounds what answers repeat of an expression, in bytes.
const maxExpression = 1 << 10

// Shortened returns the beginning of an expression, as answers repeat it.
func Shortened(expression string) string {
	expression = strings.TrimSpace(expression)
	if len(expression) <= maxExpression {
		return expression
	}
	return strings.ToValidUTF8(expression[:maxExpression], "") + "…"
}
