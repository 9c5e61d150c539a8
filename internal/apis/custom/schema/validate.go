package schema

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/cel/pattern"
)

// Validate returns the errors of a value, with paths below base. It validates apiVersion, kind and metadata of
// documents only if the schema contains them. The number of errors is limited. Because each element of a list
// can be validated against thousands of schemas, Validate stops with an error when ctx ends.
func (s *Schema) Validate(ctx context.Context, base *field.Path, value any) field.ErrorList {
	return s.ValidateUpdate(ctx, base, value, nil)
}

// ValidateUpdate is like Validate, for a value that replaces old. It applies ratcheting (KEP-4008): it does
// not validate unchanged values, except apiVersion and kind of a document, which has a nil base. If old is
// nil, ratcheting is disabled.
func (s *Schema) ValidateUpdate(ctx context.Context, base *field.Path, value, old any) field.ErrorList {
	c := checker{ctx: ctx, base: base}
	r := c.check(s, nil, value, old)
	if base == nil && old != nil && s.Unchanged(value, old) {
		c.checkTypeMeta(&r, s, value)
	}
	var errs field.ErrorList
	for _, f := range r.faults {
		errs = append(errs, f.err)
	}
	if c.interrupted != nil {
		errs = append(errs, field.InternalError(base, fmt.Errorf("validate the schema: %w", c.interrupted)))
	}
	return errs
}

// checkTypeMeta validates the apiVersion and kind of a document.
func (c *checker) checkTypeMeta(r *result, s *Schema, value any) {
	doc, _ := value.(map[string]any)
	for _, name := range [...]string{"apiVersion", "kind"} {
		if member := s.Properties[name]; member != nil && doc[name] != nil {
			r.merge(c.check(member, &place{name: name, index: -1}, doc[name], nil))
		}
	}
}

// checker validates one document.
type checker struct {
	ctx  context.Context
	base *field.Path
	// work is the approximate number of comparisons since the last check of ctx. interrupted is the cause of
	// ctx. It is nil until the checker has detected that ctx has ended.
	work        int
	interrupted error
	// watch limits the total matching time of all patterns, because a document can contain many strings.
	watch pattern.Matcher
}

// check validates a value. old is the replaced value, or nil if it is unknown.
func (c *checker) check(s *Schema, p *place, value, old any) result {
	if c.isInterrupted(s) {
		return result{}
	}
	r := c.checkAll(s, p, value, old)
	if len(r.faults) > 0 && old != nil && !r.changed {
		if s.Unchanged(value, old) {
			return result{matched: r.matched}
		}
		r.changed = true
	}
	return r
}

// isInterrupted reports whether ctx has ended. It must be called before each use of a schema.
func (c *checker) isInterrupted(s *Schema) bool {
	const checkInterval, perUnit = 1 << 12, 16
	if c.work += 1 + (len(s.names)+len(s.rules.required)+len(s.rules.enum))/perUnit; c.work >= checkInterval && c.interrupted == nil {
		c.work = 0
		if c.ctx.Err() != nil {
			c.interrupted = context.Cause(c.ctx)
		}
	}
	return c.interrupted != nil
}

// checkBelow validates a member or element of a value, and merges the result. If the inner value has changed,
// the outer value has changed too and need not be compared. Comparing the values at all levels would take
// quadratic time.
func (c *checker) checkBelow(r *result, s *Schema, p *place, value, old any) {
	inner := c.check(s, p, value, old)
	r.changed = r.changed || inner.changed
	r.merge(inner)
}

func (c *checker) checkAll(s *Schema, p *place, value, old any) result {
	var r result
	if value == nil {
		if len(s.types) > 0 && !s.Nullable {
			r.add(c.wrongType(p, joined(s.types), "null"))
		}
		c.checkEnum(&r, s, p, value)
		return r
	}
	c.checkType(&r, s, p, value)
	c.checkCombined(&r, s, p, value)
	switch value := value.(type) {
	case string:
		c.checkString(&r, s, p, value)
	case int64, float64:
		c.checkNumber(&r, s, p, value)
	case []any:
		oldList, _ := old.([]any)
		c.checkList(&r, s, p, value, oldList)
	}
	c.checkEnum(&r, s, p, value)
	if object, ok := value.(map[string]any); ok {
		oldObject, _ := old.(map[string]any)
		c.checkObject(&r, s, p, object, oldObject)
	}
	r.matched++
	return r
}

func (c *checker) checkEnum(r *result, s *Schema, p *place, value any) {
	if len(s.rules.enum) == 0 {
		return
	}
	r.matched++
	if text, ok := value.(string); ok && s.rules.enumTexts != nil {
		if s.rules.enumTexts[text] {
			return
		}
		r.add(c.notSupported(p, value, s.rules.enum))
		return
	}
	for _, allowed := range s.rules.enum {
		if equalScalars(value, allowed) || reflect.DeepEqual(value, allowed) {
			return
		}
	}
	r.add(c.notSupported(p, value, s.rules.enum))
}

// equalScalars reports whether both values are numbers and equal, regardless of their Go types.
func equalScalars(a, b any) bool {
	x, okX := asFloat(a)
	y, okY := asFloat(b)
	return okX && okY && x == y
}

func asFloat(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}

func (c *checker) checkList(r *result, s *Schema, p *place, list, old []any) {
	r.matched += 2
	if s.Items != nil {
		var before map[string]any
		if s.ListType == "map" && old != nil {
			before = byKeys(s.ListKeys, old)
		}
		for i, value := range list {
			if r.full() {
				break
			}
			var was any
			if before != nil {
				if key, ok := keyOf(s.ListKeys, value); ok {
					was = before[key]
				}
			}
			c.checkBelow(r, s.Items, &place{above: p, index: i}, value, was)
		}
	}
	if limit := s.rules.minItems; limit != nil && int64(len(list)) < *limit {
		r.add(c.invalid(p, int64(len(list)), "should have at least %d items", *limit))
	}
	if limit := s.rules.maxItems; limit != nil && int64(len(list)) > *limit {
		r.add(c.tooMany(p, int64(len(list)), *limit, "items"))
	}
}

func (c *checker) checkObject(r *result, s *Schema, p *place, object, old map[string]any) {
	r.matched++
	if limit := s.rules.minProperties; limit != nil && int64(len(object)) < *limit {
		r.add(c.invalid(p, int64(len(object)), "should have at least %d properties", *limit))
	}
	if limit := s.rules.maxProperties; limit != nil && int64(len(object)) > *limit {
		r.add(c.tooMany(p, int64(len(object)), *limit, "properties"))
	}
	if s.Additional != nil || s.rules.closed {
		c.checkAdditional(r, s, p, object, old)
	}
	names := s.names
	if len(object) < len(names)/8 {
		names = sortedKeys(object)
	}
	for _, name := range names {
		member := s.Properties[name]
		if value, found := object[name]; found && member != nil {
			was := old[name]
			if p == nil && (name == "apiVersion" || name == "kind") {
				was = nil // documents are converted before they are compared
			}
			c.checkBelow(r, member, &place{above: p, name: name, index: -1}, value, was)
		}
	}
	for _, name := range s.rules.required {
		if _, found := object[name]; !found {
			if r.full() {
				break
			}
			r.add(c.required(&place{above: p, name: name, index: -1}))
		}
	}
}

func (c *checker) checkAdditional(r *result, s *Schema, p *place, object, old map[string]any) {
	for _, name := range sortedKeys(object) {
		if _, declared := s.Properties[name]; declared {
			continue
		}
		if r.full() {
			break
		}
		if s.rules.closed {
			text := fmt.Sprintf("%s.%s in body is a forbidden property", p, name)
			r.add(fault{text, field.Invalid(c.at(p), name, text)})
			continue
		}
		c.checkBelow(r, s.Additional, &place{above: p, name: name, index: -1}, object[name], old[name])
	}
}

// checkCombined validates allOf, anyOf, oneOf and not. As in kube-apiserver, ratcheting does not apply to these
// schemas, because otherwise an alternative would accept an unchanged value that it does not describe.
func (c *checker) checkCombined(r *result, s *Schema, p *place, value any) {
	r.matched += 2
	if len(s.rules.anyOf) > 0 {
		valid, chosen := c.alternatives(s.rules.anyOf, p, value, true)
		if valid == 0 {
			r.add(c.combinationFault(fmt.Sprintf("%q must validate at least one schema (anyOf)", p)))
		}
		r.merge(chosen)
	}
	if len(s.rules.oneOf) > 0 {
		valid, chosen := c.alternatives(s.rules.oneOf, p, value, false)
		switch {
		case valid == 0:
			r.add(c.combinationFault(fmt.Sprintf("%q must validate one and only one schema (oneOf). Found none valid", p)))
		case valid > 1:
			r.add(c.combinationFault(fmt.Sprintf("%q must validate one and only one schema (oneOf). Found %d valid alternatives", p, valid)))
		}
		r.merge(chosen)
	}
	if len(s.rules.allOf) > 0 {
		c.checkAllOf(r, s, p, value)
	}
	if s.rules.not != nil && len(c.check(s.rules.not, p, value, nil).faults) == 0 {
		r.add(c.combinationFault(fmt.Sprintf("%q must not validate the schema (not)", p)))
	}
}

func (c *checker) checkAllOf(r *result, s *Schema, p *place, value any) {
	valid := 0
	for _, one := range s.rules.allOf {
		checked := c.check(one, p, value, nil)
		if len(checked.faults) == 0 {
			valid++
		}
		r.merge(checked)
	}
	if valid == len(s.rules.allOf) {
		return
	}
	none := ""
	if valid == 0 {
		none = ". None validated"
	}
	r.add(c.combinationFault(fmt.Sprintf("%q must validate all the schemas (allOf)%s", p, none)))
}

// alternatives returns the number of schemas that accept a value, and the result to report. That is the result
// of the schema that accepts the value or, if no schema accepts it, the result of the closest match. It is
// empty if several schemas accept the value. If oneIsEnough is set, it stops at the first schema that accepts
// the value.
func (c *checker) alternatives(list []*Schema, p *place, value any, oneIsEnough bool) (valid int, chosen result) {
	nearest := false
	for _, one := range list {
		checked := c.check(one, p, value, nil)
		switch {
		case len(checked.faults) == 0:
			if valid++; valid == 1 {
				chosen = checked
			}
			if oneIsEnough {
				return valid, chosen
			}
		case valid == 0 && (!nearest || checked.matched > chosen.matched):
			chosen, nearest = checked, true
		}
	}
	if valid > 1 {
		chosen = result{}
	}
	return valid, chosen
}
