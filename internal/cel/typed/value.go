package typed

import (
	"encoding/base64"
	"math"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Value converts a JSON value to a CEL value. value consists of the Go types of encoding/json, except that
// integers are int64. It is not copied, and must not be modified while the result is in use. If value does not
// match the type, the result is a CEL error, which makes the expression that uses it fail.
func (t *Type) Value(value any) ref.Val {
	if value == nil {
		if t.nullable {
			return types.NullValue
		}
		return types.NewErr("invalid data, got null for schema with nullable=false")
	}
	switch t.kind {
	case kindObject, kindMapping:
		if members, ok := value.(map[string]any); ok {
			return &object{t, members}
		}
		return types.NewErr("invalid data, expected a map for the provided schema with type=object")
	case kindList:
		if elements, ok := value.([]any); ok {
			return &list{typ: t, raw: elements}
		}
		return types.NewErr("invalid data, expected an array for the provided schema with type=array")
	case kindBool:
		if value, ok := value.(bool); ok {
			return types.Bool(value)
		}
		return types.NewErr("invalid data, expected bool, got %T", value)
	case kindNumber, kindInteger, kindIntOrString:
		return t.number(value)
	}
	text, ok := value.(string)
	if !ok {
		return types.NewErr("invalid data, expected string, got %T", value)
	}
	return t.text(text)
}

func (t *Type) number(value any) ref.Val {
	switch value := value.(type) {
	case int64:
		if t.kind == kindNumber {
			return types.Double(value)
		}
		return types.Int(value)
	case float64:
		switch {
		case t.kind == kindNumber:
			return types.Double(value)
		case t.kind == kindInteger && isWhole(value):
			// The schema accepts 3.0 as an integer.
			return types.Int(value)
		}
	case string:
		if t.kind == kindIntOrString {
			return types.String(value)
		}
	}
	switch t.kind {
	case kindNumber:
		return types.NewErr("invalid data, expected float, got %T", value)
	case kindInteger:
		return types.NewErr("invalid data, expected int, got %T", value)
	}
	return types.NewErr("invalid data, expected XIntOrString value to be either a string or integer")
}

func isWhole(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < 1<<53 }

func (t *Type) text(text string) ref.Val {
	switch t.kind {
	case kindDuration:
		d, err := strfmt.ParseDuration(text)
		if err != nil {
			return types.NewErr("Invalid duration %s: %v", text, err)
		}
		return types.Duration{Duration: d}
	case kindDate:
		d, err := time.Parse(strfmt.RFC3339FullDate, text)
		if err != nil {
			return types.NewErr("Invalid date formatted string %s: %v", text, err)
		}
		return types.Timestamp{Time: d}
	case kindDateTime:
		d, err := strfmt.ParseDateTime(text)
		if err != nil {
			return types.NewErr("Invalid date-time formatted string %s: %v", text, err)
		}
		return types.Timestamp{Time: time.Time(d)}
	case kindBytes:
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return types.NewErr("Invalid byte formatted string %s: %v", text, err)
		}
		return types.Bytes(decoded)
	}
	return types.String(text)
}
