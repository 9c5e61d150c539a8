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

// Checker validates the rules of one schema of a definition: that they compile, that
// their estimated costs are within limits, each and together, and that they are in places
// where they can apply. The zero value is ready for use. It is not safe for concurrent
// use.
type Checker struct {
	// Unchanged reports whether the stored definition has the same schema, whose rules are then not rejected
	// for their cost. It is called when a rule exceeds a limit; nil means that the schema is new.
	Unchanged func() bool

	types typed.Builder
	envs  environments
	costs map[expressionKey]compiledCost

	total     uint64
	expensive []expensive // the most expensive first
}

// compiledCost is the estimated cost of one evaluation of an expression, or its error.
type compiledCost struct {
	usesOldSelf bool
	cost        uint64
	err         error
}

// expensive is an expression with a large part of the cost of a schema.
type expensive struct {
	at   *field.Path
	cost uint64
}

// SchemaNode is a node of a schema with the context of its rules. Check of the zero value returns no errors.
type SchemaNode struct {
	checker *Checker
	props   *apiextensions.JSONSchemaProps
	at      *field.Path
	// typ is the type of the values. It is nil if there are no rules on the path so far, and if expressions
	// cannot access the values, in which case hidden is set.
	typ    *typed.Type
	hidden bool
	// count is the maximum number of such values in an object, if bounded is set.
	count   uint64
	bounded bool
	// uncorrelated is the first node of the path whose values cannot be correlated with old ones;
	// nil if there is none.
	uncorrelated *field.Path
}

// Root returns the node of the whole schema, the root of a resource.
func (c *Checker) Root(props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	s := SchemaNode{checker: c, props: props, at: at, count: 1, bounded: true}
	if len(props.XValidations) > 0 {
		s.typ = c.types.Build(props, true)
		s.hidden = s.typ == nil
	}
	return s
}

// below returns a node below this one. from returns its type from that of this one.
func (s SchemaNode) below(props *apiextensions.JSONSchemaProps, at *field.Path, from func(*typed.Type) *typed.Type) SchemaNode {
	if s.checker == nil || props == nil {
		return SchemaNode{}
	}
	inner := s
	inner.props, inner.at = props, at
	most, bounded := maxBelow(s.props)
	inner.bounded = s.bounded && bounded
	inner.count = multiply(s.count, most)
	inner.typ = nil
	if s.typ != nil {
		inner.typ = from(s.typ)
	}
	if inner.typ == nil && !s.hidden && (s.typ != nil || len(props.XValidations) > 0) {
		inner.typ = s.checker.types.Build(props, props.XEmbeddedResource)
		inner.hidden = inner.typ == nil
	}
	return inner
}

// maxBelow returns the bound of the number of elements or members of one value.
func maxBelow(props *apiextensions.JSONSchemaProps) (most uint64, bounded bool) {
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

// Member returns the node of a member of an object.
func (s SchemaNode) Member(name string, props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	return s.below(props, at, func(t *typed.Type) *typed.Type { return t.Field(name) })
}

// FreeMembers returns the node of additionalProperties.
func (s SchemaNode) FreeMembers(props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	return s.below(props, at, (*typed.Type).Items)
}

// Elements returns the node of the elements of a list.
func (s SchemaNode) Elements(props *apiextensions.JSONSchemaProps, at *field.Path) SchemaNode {
	if s.checker == nil {
		return SchemaNode{}
	}
	if s.uncorrelated == nil && (s.props.XListType == nil || *s.props.XListType != "map") {
		s.uncorrelated = s.at
	}
	return s.below(props, at, (*typed.Type).Items)
}

// Check returns the errors of the node's rules. Validation without CEL must precede it.
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
	sees := scopeOf(s.typ, rule)
	v := s.checker.compile(expressionKey{sees, rule.Rule, asRule})
	cost := multiply(v.cost, s.count)
	if !s.bounded {
		cost = multiply(v.cost, s.typ.MaxCount())
	}
	errs = s.checker.charge(errs, ruleAt, "estimated rule cost", cost)
	if v.err != nil {
		errs = append(errs, field.Invalid(ruleAt, *rule, v.err.Error()))
	}
	if rule.MessageExpression != "" && v.err == nil {
		if m := s.checker.compile(expressionKey{sees, rule.MessageExpression, asMessage}); m.err != nil {
			errs = append(errs, field.Invalid(messageAt, *rule, m.err.Error()))
		} else {
			// As kube-apiserver: not multiplied by the number of values.
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

// compile compiles an expression and estimates its cost, once for equal expressions. It does not
// cache the compiled expression.
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

// charge adds the cost of an expression to the total, and an error if it exceeds the
// limit.
func (c *Checker) charge(errs field.ErrorList, at *field.Path, what string, cost uint64) field.ErrorList {
	c.total = add(c.total, cost)
	const kept = 4
	// Less than a hundredth of the limit is not reported.
	if cost >= environment.EstimatedDefinitionLimit/100 {
		c.expensive = append(c.expensive, expensive{at, cost})
		slices.SortStableFunc(c.expensive, func(a, b expensive) int { return cmp.Compare(b.cost, a.cost) })
		c.expensive = c.expensive[:min(len(c.expensive), kept)]
	}
	if cost > environment.EstimatedRuleLimit && (c.Unchanged == nil || !c.Unchanged()) {
		errs = append(errs, field.Forbidden(at, tooMuch(what, cost, environment.EstimatedRuleLimit)))
	}
	return errs
}

// Total returns the error if the rules of all checked nodes together exceed the cost limit.
func (c *Checker) Total(at *field.Path) field.ErrorList {
	if c.total <= environment.EstimatedDefinitionLimit {
		return nil
	}
	var errs field.ErrorList
	for _, e := range c.expensive {
		errs = append(errs, field.Forbidden(e.at, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"))
	}
	return append(errs, field.Forbidden(at, tooMuch("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", c.total, environment.EstimatedDefinitionLimit)))
}

func tooMuch(what string, cost, limit uint64) string {
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

// multiply and add return the maximum value instead of an overflow.
func multiply(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

func add(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}
