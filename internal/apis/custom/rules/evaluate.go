package rules

import (
	"context"
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

const budgetExceeded = "failed due to running out of cost budget, no further validation rules will be run"

// rulesOf evaluates the rules of a value, but not the rules of its children. It returns false if the validation
// must stop.
func (v *validation) rulesOf(n *node, p *place) bool {
	n.once.Do(func() { n.ready = v.rules.compile(n) })
	defer v.rules.metrics.observeEvaluation(v.rules.metrics.now())
	// The budget does not limit rules without a cost, such as constants and transition rules of a new object.
	const checkInterval = 1 << 10
	if v.unchecked += len(n.rules); v.unchecked >= checkInterval && v.ctx.Err() != nil {
		v.budget = -1
		v.errs = append(v.errs, field.InternalError(p.path(v.at), fmt.Errorf("validate rules: %w", context.Cause(v.ctx))))
		return false
	}
	v.unchecked %= checkInterval
	if v.budget <= 0 {
		return v.abort(p.path(v.at), n, "validation "+budgetExceeded)
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
		if !v.rule(n, i, p, seen, vars) {
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

// abort adds an error and returns false, which stops the validation.
func (v *validation) abort(at *field.Path, n *node, detail string) bool {
	v.errs = append(v.errs, field.Invalid(at, n.jsonType, detail))
	v.budget = -1
	return false
}

// rule evaluates a rule with vars, and its message expression with plain. It returns false if the validation
// must stop.
func (v *validation) rule(n *node, i int, p *place, vars, plain *variables) bool {
	rule, compiled := &n.rules[i], &n.ready.rules[i]
	switch {
	case compiled.rule == nil: // empty rule
		return true
	case compiled.rule.err != nil:
		v.errs = append(v.errs, field.Invalid(p.path(v.at), n.jsonType, fmt.Sprintf("rule compile error: %v", compiled.rule.err)))
		return true
	case compiled.rule.usesOldSelf && vars.oldSelf == nil:
		return true // a transition rule without an old value
	}
	r := compiled.rule.eval(v.ctx, vars)
	if !r.counted {
		v.budget = -1
		v.errs = append(v.errs, field.InternalError(p.path(v.at),
			fmt.Errorf("runtime cost could not be calculated for validation rule: %v, no further validation rules will be run", ruleName(rule))))
		return false
	}
	if !v.charge(r.cost) {
		return v.abort(p.path(v.at), n, "validation "+budgetExceeded)
	}
	switch {
	case r.err == nil && r.value == types.True:
		return true
	case r.err == nil:
		return v.addRuleFault(n, i, p, plain)
	case isTooExpensive(r.err):
		return v.abort(p.path(v.at), n, fmt.Sprintf("'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", r.err, ruleName(rule)))
	}
	detail := fmt.Sprintf("%v evaluating rule: %v", r.err, ruleName(rule))
	if strings.HasPrefix(r.err.Error(), "no such overload") {
		detail = fmt.Sprintf("'%v': call arguments did not match a supported operator, function or macro signature for rule: %v", r.err, ruleName(rule))
	}
	v.errs = append(v.errs, field.Invalid(p.path(v.at), n.jsonType, detail))
	return true
}

// charge subtracts a cost from the budget. It returns false if the budget is too small.
func (v *validation) charge(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > v.budget {
		return false
	}
	v.budget -= int64(cost)
	return true
}

func isTooExpensive(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

// ruleName returns the text that identifies a rule in messages.
func ruleName(rule *apiextensions.ValidationRule) string {
	if rule.Message != "" {
		return strings.TrimSpace(rule.Message)
	}
	return strings.TrimSpace(rule.Rule)
}

// addRuleFault adds the error of a rule that evaluated to false. It returns false if the validation must stop.
func (v *validation) addRuleFault(n *node, i int, p *place, vars *variables) bool {
	rule, compiled := &n.rules[i], &n.ready.rules[i]
	at := p.path(v.at)
	if n.paths[i] != "" {
		at = at.Child(n.paths[i])
	}
	detail := ""
	if compiled.message != nil {
		text, fault := v.message(compiled.message(), rule.MessageExpression, vars)
		if fault != "" {
			v.budget = -1
			v.addFault(compiled, p, field.Invalid(at, n.jsonType, fault))
			return false
		}
		detail = text
	}
	if detail == "" {
		detail = strings.TrimSpace(rule.Message)
	}
	if detail == "" {
		detail = "failed rule: " + ruleName(rule)
	}
	value := p.value
	if n.jsonType == "object" || n.jsonType == "array" {
		value = field.OmitValueType{}
	}
	v.addFault(compiled, p, faultFor(rule.Reason, at, value, detail))
	return true
}

// addFault adds an error, or a warning if ratcheting applies to the value.
func (v *validation) addFault(compiled *compiledRule, p *place, fault *field.Error) {
	if !compiled.rule.usesOldSelf && p.isUnchanged(v.schema) {
		request.AddWarning(v.ctx, fault.Error())
		return
	}
	v.errs = append(v.errs, fault)
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

// message returns the result of a message expression, or "" if the result is invalid. If fault is not empty,
// the caller must stop the validation with this error.
func (v *validation) message(e *expression, source string, vars *variables) (text, fault string) {
	if e.err != nil {
		return "", ""
	}
	r := e.eval(v.ctx, vars)
	switch {
	case !r.counted:
		return "", fmt.Sprintf("runtime cost could not be calculated for messageExpression: %q", source)
	case !v.charge(r.cost):
		return "", "messageExpression evaluation " + budgetExceeded
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
