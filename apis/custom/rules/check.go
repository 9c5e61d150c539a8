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

	"mainstay.dev/mainstay/cel/environment"
	"mainstay.dev/mainstay/cel/typed"
)

// Checker judges the rules of one schema of a definition: whether they compile,
// what they may cost at most, one by one and together, and whether they are where
// they can be of use. The zero value is ready. It is for one goroutine.
type Checker struct {
	// Unchanged reports that the schema is stored as it is: its rules were accepted
	// before and are not refused for what each of them costs. It is asked when one
	// costs too much; nil for a new schema.
	Unchanged func() bool

	types    typed.Maker
	envs     environments
	verdicts map[expressionKey]compiledCost

	total  uint64
	expensive []expensive // the most expensive first
}

// compiledCost is what is known of an expression. cost is that of one evaluation.
type compiledCost struct {
	usesOldSelf bool
	cost        uint64
	err         error
}

// expensive is an expression that is a good part of the cost of a schema.
type expensive struct {
	at   *field.Path
	cost uint64
}

// Site is a place in a schema, on the way down. The zero value is nowhere: there,
// rules are not judged.
type Site struct {
	checker *Checker
	props   *apiextensions.JSONSchemaProps
	at      *field.Path
	// typ is nil as long as there are no rules on the way, and where expressions
	// cannot see values; hidden tells that.
	typ    *typed.Type
	hidden bool
	// count bounds how many such values an object may hold, where bounded.
	count   uint64
	bounded bool
	// uncorrelated is where on the way it is not known any more which value was
	// which before; nil where it is.
	uncorrelated *field.Path
}

// Root is the site of the whole schema, which is one of resources.
func (c *Checker) Root(props *apiextensions.JSONSchemaProps, at *field.Path) Site {
	s := Site{checker: c, props: props, at: at, count: 1, bounded: true}
	if len(props.XValidations) > 0 {
		s.typ = c.types.Make(props, true)
		s.hidden = s.typ == nil
	}
	return s
}

// below is a site below this one. from is what the type of this one says of it.
func (s Site) below(props *apiextensions.JSONSchemaProps, at *field.Path, from func(*typed.Type) *typed.Type) Site {
	if s.checker == nil || props == nil {
		return Site{}
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
		inner.typ = s.checker.types.Make(props, props.XEmbeddedResource)
		inner.hidden = inner.typ == nil
	}
	return inner
}

// maxBelow is how many values of each kind there may be inside of one value.
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

// Member is the site of a member of an object.
func (s Site) Member(name string, props *apiextensions.JSONSchemaProps, at *field.Path) Site {
	return s.below(props, at, func(t *typed.Type) *typed.Type { return t.Field(name) })
}

// FreeMembers is the site of the members of an object with free names.
func (s Site) FreeMembers(props *apiextensions.JSONSchemaProps, at *field.Path) Site {
	return s.below(props, at, (*typed.Type).Items)
}

// Elements is the site of the elements of a list.
func (s Site) Elements(props *apiextensions.JSONSchemaProps, at *field.Path) Site {
	if s.checker == nil {
		return Site{}
	}
	if s.uncorrelated == nil && (s.props.XListType == nil || *s.props.XListType != "map") {
		s.uncorrelated = s.at
	}
	return s.below(props, at, (*typed.Type).Items)
}

// Check returns what is wrong with the rules of the site. The words of rules, as
// far as they mean something without CEL, were found to be right before.
func (s Site) Check(ctx context.Context) field.ErrorList {
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

func (s Site) rule(rule *apiextensions.ValidationRule, at *field.Path) field.ErrorList {
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
			// As kube-apiserver: how often it may be made does not count.
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

// compiledCost compiles an expression and estimates its cost, once for all like it.
// The expression itself is not kept.
func (c *Checker) compile(key expressionKey) compiledCost {
	if have, found := c.verdicts[key]; found {
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
	if c.verdicts == nil {
		c.verdicts = map[expressionKey]compiledCost{}
	}
	c.verdicts[key] = v
	return v
}

// charge notes the cost of an expression, and adds a fault if it is too much.
func (c *Checker) charge(errs field.ErrorList, at *field.Path, what string, cost uint64) field.ErrorList {
	c.total = add(c.total, cost)
	const kept = 4
	// What is less than a hundredth of the limit is not worth telling.
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

// Total returns what is wrong with the cost of all rules of the sites that were
// checked, together.
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

// multiply and add end at the largest number.
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
