package rules

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/request"
)

const outOfBudget = "failed due to running out of cost budget, no further validation rules will be run"

// rulesOf evaluates the rules of a value itself.
func (j *validation) rulesOf(n *node, p *place) bool {
	n.once.Do(func() { n.ready = j.rules.compile(n) })
	defer j.rules.metrics.observeEvaluation(j.rules.metrics.now())
	if j.left <= 0 {
		return j.abort(p.path(j.at), n, "validation "+outOfBudget)
	}
	vars := &variables{self: n.typ.Value(p.value)}
	if n.ready.usesOldSelf && p.old != nil {
		vars.oldSelf = n.typ.Value(p.old)
	}
	optional := vars
	if n.ready.optional {
		optional = &variables{self: vars.self, oldSelf: types.OptionalNone}
		if vars.oldSelf != nil {
			optional.oldSelf = types.OptionalOf(vars.oldSelf)
		}
	}
	for i := range n.rules {
		seen := vars
		if scopeOf(n.typ, &n.rules[i]).optional {
			seen = optional
		}
		if !j.rule(n, i, p, seen, vars) {
			return false
		}
	}
	return true
}

// compile compiles the rules of a node.
func (r *Rules) compile(n *node) compiledRules {
	defer r.metrics.observeCompilation(r.metrics.now())
	return r.compiled.compile(n)
}

// abort adds an error after which no rule is evaluated.
func (j *validation) abort(at *field.Path, n *node, detail string) bool {
	j.errs = append(j.errs, field.Invalid(at, n.jsonType, detail))
	j.left = -1
	return false
}

// rule evaluates a rule. plain are the variables of its message expression.
func (j *validation) rule(n *node, i int, p *place, vars, plain *variables) bool {
	written, made := &n.rules[i], &n.ready.rules[i]
	switch {
	case made.rule == nil: // an empty one
		return true
	case made.rule.err != nil:
		j.errs = append(j.errs, field.Invalid(p.path(j.at), n.jsonType, fmt.Sprintf("rule compile error: %v", made.rule.err)))
		return true
	case made.rule.usesOldSelf && vars.oldSelf == nil:
		return true // a transition rule without an old value
	}
	r := made.rule.eval(j.ctx, vars)
	if !r.counted {
		j.left = -1
		j.errs = append(j.errs, field.InternalError(p.path(j.at),
			fmt.Errorf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", ruleName(written))))
		return false
	}
	if !j.charge(r.cost) {
		return j.abort(p.path(j.at), n, "validation "+outOfBudget)
	}
	switch {
	case r.err == nil && r.value == types.True:
		return true
	case r.err == nil:
		return j.addRuleFault(n, i, p, plain)
	case isTooExpensive(r.err):
		return j.abort(p.path(j.at), n, fmt.Sprintf("'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", r.err, ruleName(written)))
	}
	detail := fmt.Sprintf("%v evaluating rule: %v", r.err, ruleName(written))
	if strings.HasPrefix(r.err.Error(), "no such overload") {
		detail = fmt.Sprintf("'%v': call arguments did not match a supported operator, function or macro signature for rule: %v", r.err, ruleName(written))
	}
	j.errs = append(j.errs, field.Invalid(p.path(j.at), n.jsonType, detail))
	return true
}

// charge subtracts a cost from the budget.
func (j *validation) charge(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > j.left {
		return false
	}
	j.left -= int64(cost)
	return true
}

func isTooExpensive(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

// ruleName returns a rule as messages quote it.
func ruleName(rule *apiextensions.ValidationRule) string {
	if rule.Message != "" {
		return strings.TrimSpace(rule.Message)
	}
	return strings.TrimSpace(rule.Rule)
}

// addRuleFault adds the error of a rule that evaluated to false.
func (j *validation) addRuleFault(n *node, i int, p *place, vars *variables) bool {
	written, made := &n.rules[i], &n.ready.rules[i]
	at := p.path(j.at)
	if n.paths[i] != "" {
		at = at.Child(n.paths[i])
	}
	detail := ""
	if made.message != nil {
		text, fault := j.message(made.message(), written.MessageExpression, vars)
		if fault != "" {
			j.left = -1
			j.addFault(made, p, field.Invalid(at, n.jsonType, fault))
			return false
		}
		detail = text
	}
	if detail == "" {
		detail = strings.TrimSpace(written.Message)
	}
	if detail == "" {
		detail = "failed rule: " + ruleName(written)
	}
	value := p.value
	if n.jsonType == "object" || n.jsonType == "array" {
		value = field.OmitValueType{}
	}
	j.addFault(made, p, faultFor(written.Reason, at, value, detail))
	return true
}

// addFault adds an error, or a warning if ratcheting applies to the value.
func (j *validation) addFault(made *compiledRule, p *place, fault *field.Error) {
	if !made.rule.usesOldSelf && p.isUnchanged(j.schema) {
		request.AddWarning(j.ctx, fault.Error())
		return
	}
	j.errs = append(j.errs, fault)
}

func faultFor(reason *apiextensions.FieldValueErrorReason, at *field.Path, value any, detail string) *field.Error {
	if reason == nil {
		return field.Invalid(at, value, detail)
	}
	switch *reason {
	case apiextensions.FieldValueForbidden:
		return field.Forbidden(at, detail)
	case apiextensions.FieldValueRequired:
		return field.Required(at, detail)
	case apiextensions.FieldValueDuplicate:
		return field.Duplicate(at, value)
	}
	return field.Invalid(at, value, detail)
}

// message returns the result of a message expression; empty if it is invalid. An error aborts the
// validation.
func (j *validation) message(e *expression, source string, vars *variables) (text, fault string) {
	if e.err != nil {
		return "", ""
	}
	r := e.eval(j.ctx, vars)
	switch {
	case !r.counted:
		return "", fmt.Sprintf("runtime cost could not be calculated for messageExpression: %q", source)
	case !j.charge(r.cost):
		return "", "messageExpression evaluation " + outOfBudget
	case r.err != nil && isTooExpensive(r.err):
		return "", fmt.Sprintf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", source)
	case r.err != nil:
		return "", ""
	}
	value, ok := r.value.(types.String)
	text = strings.TrimSpace(string(value))
	if !ok || len(text) > environment.MaxMessageSize || strings.Contains(text, "\n") {
		return "", ""
	}
	return text, ""
}
