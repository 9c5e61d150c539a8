package schema

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func joined(types []string) string { return strings.Join(types, ",") }

func (s *Schema) allows(jsonType string) bool {
	for _, t := range s.types {
		if t == jsonType {
			return true
		}
	}
	return false
}

// typeOf returns the JSON type of a value, and the format of its Go type.
func typeOf(value any) (jsonType, format string) {
	switch value.(type) {
	case string:
		return "string", ""
	case bool:
		return "boolean", ""
	case int64:
		return "integer", "int64"
	case float64:
		return "number", "float64"
	case []any:
		return "array", ""
	}
	return "object", ""
}

// isWhole reports whether a number is an integer in the range that a float64 represents
// exactly.
func isWhole(f float64) bool {
	const limit = 1<<53 - 1
	return f == math.Trunc(f) && math.Abs(f) <= limit
}

func (c *checker) checkType(r *result, s *Schema, p *place, value any) {
	if len(s.types) == 0 && s.rules.format == "" {
		return
	}
	r.matched++
	jsonType, goFormat := typeOf(value)
	number, isFloat := value.(float64)
	fits := s.allows(jsonType) ||
		isFloat && isWhole(number) && s.allows("integer") ||
		jsonType == "integer" && s.allows("number")
	format := s.rules.format
	switch value.(type) {
	case string, []any:
		if format != "" && !s.allows("number") && !s.allows("integer") {
			return // the format restricts the value further
		}
	default:
		if format != "" && !fits && format != goFormat {
			r.add(c.wrongType(p, format, goFormat))
			return
		}
	}
	if !fits {
		r.add(c.wrongType(p, joined(s.types), jsonType))
	}
}

func (c *checker) checkString(r *result, s *Schema, p *place, value string) {
	r.matched++
	rules := &s.rules
	length := int64(-1)
	if rules.maxLength != nil || rules.minLength != nil {
		length = int64(utf8.RuneCountInString(value))
	}
	switch {
	case rules.maxLength != nil && length > *rules.maxLength:
		text := fmt.Sprintf("%s in body should be at most %d chars long", p, *rules.maxLength)
		r.add(fault{text, field.TooLong(c.at(p), value, int(*rules.maxLength))})
	case rules.minLength != nil && length < *rules.minLength:
		r.add(c.invalid(p, value, "should be at least %d chars long", *rules.minLength))
	case rules.pattern != nil:
		switch matches, inTime := c.watch.Match(rules.pattern.compiled(), value); {
		case !inTime:
			r.add(c.invalid(p, field.OmitValueType{}, "takes too long to be compared with '%s'", rules.pattern.text))
		case !matches:
			r.add(c.invalid(p, value, "should match '%s'", rules.pattern.text))
		}
	}
	if rules.format != "" {
		r.matched++
		if !hasFormat(rules.format, value) {
			text := fmt.Sprintf("%s in body must be of type %s: %q", p, rules.format, value)
			r.add(fault{text, field.TypeInvalid(c.at(p), value, text)})
		}
	}
}

func (c *checker) checkNumber(r *result, s *Schema, p *place, value any) {
	r.matched += 2
	if fault := c.outOfRange(s, p, value, "Checked"); fault != nil {
		r.add(*fault)
	}
	rules := &s.rules
	if rules.multipleOf != nil {
		c.checkMultiple(r, s, p, value, *rules.multipleOf)
	}
	if rules.minimum != nil {
		c.checkLimit(r, s, p, value, *rules.minimum, "Minimum boundary", rules.aboveMinimum, "greater", -1)
	}
	if rules.maximum != nil {
		c.checkLimit(r, s, p, value, *rules.maximum, "Maximum boundary", rules.belowMaximum, "less", 1)
	}
}

// checkLimit adds a fault if the value is beyond a limit. It compares integers if both numbers are integers.
// side is the sign of value-limit for which it adds a fault.
func (c *checker) checkLimit(r *result, s *Schema, p *place, value any, limit float64, role string, exclusive bool, word string, side int) {
	fault := c.outOfRange(s, p, limit, role)
	if fault != nil {
		r.add(*fault)
	}
	var order int
	shown := any(limit)
	if whole, ok := value.(int64); ok && fault == nil {
		order, shown = compare(whole, int64(limit)), int64(limit)
	} else {
		number, _ := asFloat(value)
		order = compare(number, limit)
	}
	if order != side && !(exclusive && order == 0) {
		return
	}
	if !exclusive {
		word += " than or equal to"
	} else {
		word += " than"
	}
	r.add(c.invalid(p, value, "should be %s %v", word, shown))
}

func compare[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (c *checker) checkMultiple(r *result, s *Schema, p *place, value any, factor float64) {
	fault := c.outOfRange(s, p, factor, "MultipleOf")
	if fault != nil {
		r.add(*fault)
	}
	if whole, ok := value.(int64); ok && fault == nil {
		switch divisor := int64(factor); {
		case divisor <= 0:
			c.notPositive(r, p, divisor)
		case whole%divisor != 0:
			r.add(c.invalid(p, value, "should be a multiple of %v", divisor))
		}
		return
	}
	number, _ := asFloat(value)
	if factor <= 0 {
		c.notPositive(r, p, factor)
		return
	}
	quotient := number / factor
	if factor < 1 {
		quotient = 1 / factor * number
	}
	if !isWhole(quotient) {
		r.add(c.invalid(p, value, "should be a multiple of %v", factor))
	}
}

func (c *checker) notPositive(r *result, p *place, factor any) {
	text := fmt.Sprintf("factor MultipleOf declared for %s must be positive: %v", p, factor)
	r.add(fault{text, field.Invalid(c.at(p), factor, text)})
}

// outOfRange returns a fault if a number is out of the range of the schema's type and format,
// otherwise nil. role describes the number in the message.
func (c *checker) outOfRange(s *Schema, p *place, value any, role string) *fault {
	if s.Type != "integer" || s.IntOrString {
		return nil
	}
	text := ""
	switch value := value.(type) {
	case int64:
		text = strconv.FormatInt(value, 10)
	case float64:
		text = strconv.FormatFloat(value, 'f', -1, 64)
	}
	bits := 64
	if s.rules.format == "int32" {
		bits = 32
	}
	if _, err := strconv.ParseInt(text, 10, bits); err == nil {
		return nil
	}
	what := "(default format)"
	if s.rules.format != "" {
		what = "with format " + s.rules.format
	}
	f := c.combinationFault(fmt.Sprintf("%s value must be of type integer %s in %s", role, what, p))
	return &f
}
