package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/typed"
)

// Checker validates the rules of one schema of a definition. The rules must compile, the estimated costs of
// each rule and of all rules together must be within the limits, and transition rules must be at nodes whose
// values can be correlated with old values. The zero value is ready for use. It is not safe for concurrent use.
type Checker struct {
	// Unchanged reports whether the stored definition has the same schema. If it has, no rule is rejected
	// because its own cost exceeds the limit. Unchanged is called at most once, when a rule exceeds the limit,
	// because comparing schemas is expensive. nil means that the schema is new.
	Unchanged func() bool

	types typed.Builder
	envs  environments
	costs map[expressionKey]compiledCost

	// unchanged is the result of Unchanged. It is nil before the call.
	unchanged *bool
	total     uint64
	expensive []expensiveExpression // the most expensive first
}

// compiledCost is the estimated cost of one evaluation of an expression, or the error of the expression.
type compiledCost struct {
	usesOldSelf bool
	cost        uint64
	err         error
}

// expensiveExpression is an expression with a large part of the cost of a schema.
type expensiveExpression struct {
	at   *field.Path
	cost uint64
}

// SchemaNode is a node of a schema with the context of its rules. Check of the zero value returns
// no errors. Like its Checker, it is not safe for concurrent use.
type SchemaNode struct {
	checker *Checker
	props   *apiextensions.JSONSchemaProps
	at      *field.Path
	// typ is the type of the values. It is nil if there are no rules on the path so far, or if expressions
	// cannot access the values. hidden is set in the second case.
	typ    *typed.Type
	hidden bool
	// count is the maximum number of values of this node in an object. It is valid if bounded is set.
	count   uint64
	bounded bool
	// uncorrelated is the first node of the path whose values cannot be correlated with old values; nil if
	// there is no such node.
	uncorrelated *field.Path
}

// Root returns the node of the whole schema, whose values are resources. at is the path of the
// schema, for errors.
func (c *Checker) Root(props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	s := SchemaNode{checker: c, props: props, at: at, count: 1, bounded: true}
	if len(props.XValidations) > 0 {
		s.typ = c.types.Build(props, true)
		s.hidden = s.typ == nil
	}
	return s
}

// below returns a child node with the schema props. childType returns the CEL type of the child for the type of
// this node.
func (s SchemaNode) below(props *apiextensions.JSONSchemaProps, at *field.Path, childType func(*typed.Type) *typed.Type) SchemaNode {
	if s.checker == nil || props == nil {
		return SchemaNode{}
	}
	inner := s
	inner.props, inner.at = props, at
	most, bounded := maxChildren(s.props)
	inner.bounded = s.bounded && bounded
	inner.count = multiply(s.count, most)
	inner.typ = nil
	if s.typ != nil {
		inner.typ = childType(s.typ)
	}
	if inner.typ == nil && !s.hidden && (s.typ != nil || len(props.XValidations) > 0) {
		inner.typ = s.checker.types.Build(props, props.XEmbeddedResource)
		inner.hidden = inner.typ == nil
	}
	return inner
}

// maxChildren returns the maximum number of elements or members of one value. bounded is false if the
// schema does not limit the number.
func maxChildren(props *apiextensions.JSONSchemaProps) (most uint64, bounded bool) {
	limit := int64(1)
	switch {
	case props.Type == "object" && props.AdditionalProperties != nil:
		if props.MaxProperties == nil {
			return 0, false
		}
		limit = *props.MaxProperties
	case props.Type == "array":
		if props.MaxItems == nil {
			return 0, false
		}
		limit = *props.MaxItems
	}
	return uint64(max(0, limit)), true
}

// Member returns the node of a property. Like AdditionalProperties and Elements, it returns the zero node if
// s is zero or props is nil.
func (s SchemaNode) Member(name string, props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	return s.below(props, at, func(t *typed.Type) *typed.Type { return t.Member(name) })
}

// AdditionalProperties returns the node of additionalProperties.
func (s SchemaNode) AdditionalProperties(props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	return s.below(props, at, (*typed.Type).Items)
}

// Elements returns the node of the elements of a list. Unless the list is a list map, the elements cannot be
// correlated with old elements.
func (s SchemaNode) Elements(props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	if s.checker == nil {
		return SchemaNode{}
	}
	if s.uncorrelated == nil && (s.props.XListType == nil || *s.props.XListType != "map") {
		s.uncorrelated = s.at
	}
	return s.below(props, at, (*typed.Type).Items)
}

// Check returns about the first maxFaults errors of the node's rules, and adds the costs of the rules to the
// total of the Checker. The node must have passed the validation without CEL. Check stops with an error when
// ctx ends.
func (s SchemaNode) Check(ctx context.Context) field.ErrorList {
	if s.checker == nil || len(s.props.XValidations) == 0 {
		return nil
	}
	at := s.at.Child("x-kubernetes-validations")
	if s.typ == nil {
		return field.ErrorList{field.InternalError(at, errors.New("internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"))}
	}
	var errs field.ErrorList
	for i := range s.props.XValidations {
		if err := ctx.Err(); err != nil {
			return append(errs, field.InternalError(at.Index(i), fmt.Errorf("compile rules: %w", err)))
		}
		if len(errs) >= maxFaults {
			break
		}
		errs = append(errs, s.rule(&s.props.XValidations[i], at.Index(i))...)
	}
	return errs
}

func (s SchemaNode) rule(rule *apiextensions.ValidationRule, at *field.Path) field.ErrorList {
	if strings.TrimSpace(rule.Rule) == "" {
		return nil
	}
	var errs field.ErrorList
	ruleAt, messageAt := at.Child("rule"), at.Child("messageExpression")
	vars := scopeOf(s.typ, rule)
	v := s.checker.compile(expressionKey{vars, rule.Rule, asRule})
	cost := multiply(v.cost, s.count)
	if !s.bounded {
		cost = multiply(v.cost, s.typ.MaxCount())
	}
	errs = s.checker.charge(errs, ruleAt, "estimated rule cost", cost)
	if v.err != nil {
		errs = append(errs, field.Invalid(ruleAt, *rule, v.err.Error()))
	}
	if rule.MessageExpression != "" && v.err == nil {
		if m := s.checker.compile(expressionKey{vars, rule.MessageExpression, asMessage}); m.err != nil {
			errs = append(errs, field.Invalid(messageAt, *rule, m.err.Error()))
		} else {
			// Like kube-apiserver, do not multiply by the number of values.
			errs = s.checker.charge(errs, messageAt, "estimated messageExpression cost", m.cost)
		}
	}
	switch {
	case v.usesOldSelf && s.uncorrelated != nil:
		errs = append(errs, field.Invalid(ruleAt, rule.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", s.uncorrelated)))
	case !v.usesOldSelf && rule.OptionalOldSelf != nil:
		errs = append(errs, field.Invalid(at.Child("optionalOldSelf"), *rule.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
	return errs
}

// compile compiles an expression and estimates its cost. Equal expressions are compiled only once, but the
// compiled expression is not retained.
func (c *Checker) compile(key expressionKey) compiledCost {
	if have, found := c.costs[key]; found {
		return have
	}
	e := c.envs.compile(key)
	v := compiledCost{usesOldSelf: e.usesOldSelf, err: e.err}
	if v.err == nil {
		cost, err := e.cost(key.typ)
		if v.cost = cost; err != nil {
			what := [...]string{asRule: "", asMessage: " for messageExpression"}[key.as]
			v.err = fmt.Errorf("cost estimation failed%s: %w", what, err)
		}
	}
	if c.costs == nil {
		c.costs = map[expressionKey]compiledCost{}
	}
	c.costs[key] = v
	return v
}

// charge adds the cost of an expression to the total. It appends an error to errs if the cost exceeds
// the limit of one expression.
func (c *Checker) charge(errs field.ErrorList, at *field.Path, what string, cost uint64) field.ErrorList {
	c.total = add(c.total, cost)
	const kept = 4
	// Total reports only expressions that cost at least a hundredth of the limit.
	if cost >= environment.EstimatedDefinitionLimit/100 {
		c.expensive = append(c.expensive, expensiveExpression{at, cost})
		slices.SortStableFunc(c.expensive, func(a, b expensiveExpression) int { return cmp.Compare(b.cost, a.cost) })
		c.expensive = c.expensive[:min(len(c.expensive), kept)]
	}
	if cost > environment.EstimatedRuleLimit && !c.isUnchanged() {
		errs = append(errs, field.Forbidden(at, exceededMessage(what, cost, environment.EstimatedRuleLimit)))
	}
	return errs
}

// isUnchanged reports whether the stored definition has the same schema.
func (c *Checker) isUnchanged() bool {
	if c.Unchanged == nil {
		return false
	}
	if c.unchanged == nil {
		unchanged := c.Unchanged()
		c.unchanged = &unchanged
	}
	return *c.unchanged
}

// Total returns errors if the rules of all nodes checked so far exceed the total cost limit. The errors are one
// for each of the most expensive expressions, and one with the path at.
func (c *Checker) Total(at *field.Path) field.ErrorList {
	if c.total <= environment.EstimatedDefinitionLimit {
		return nil
	}
	var errs field.ErrorList
	for _, e := range c.expensive {
		errs = append(errs, field.Forbidden(e.at, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(at, exceededMessage("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", c.total, environment.EstimatedDefinitionLimit)))
}

func exceededMessage(what string, cost, limit uint64) string {
	factor := ""
	switch times := float64(cost) / float64(limit); {
	case times > 100:
		factor = "more than 100x"
	case times < 1.5:
		factor = fmt.Sprintf("%fx", times)
	default:
		factor = fmt.Sprintf("%.1fx", times)
	}
	return what + " exceeds budget by factor of " + factor +
		" (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// multiply returns a*b, or the maximum value on overflow.
func multiply(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// add returns a+b, or the maximum value on overflow.
func add(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}
