package library

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Names of the types of this package.
const (
	urlTypeName      = "kubernetes.URL"
	ipTypeName       = "net.IP"
	cidrTypeName     = "net.CIDR"
	quantityTypeName = "kubernetes.Quantity"
	formatTypeName   = "kubernetes.NamedFormat"
	semverTypeName   = "kubernetes.Semver"
)

// kind is a CEL type whose values are Go values of type T, with the operations of these values.
type kind[T any] struct {
	name  string // as texts of errors name it
	typ   *cel.Type
	equal func(a, b T) bool
	text  func(T) string // nil: no such value is converted to a string
	size  func(T) int    // in bytes; nil: one
}

// of wraps a Go value.
func (k *kind[T]) of(v T) ref.Val { return &value[T]{kind: k, goValue: v} }

// value is a value of a kind. It does not change.
type value[T any] struct {
	kind    *kind[T]
	goValue T
}

// ConvertToNative returns the Go value, or its text for a string.
func (v *value[T]) ConvertToNative(want reflect.Type) (any, error) {
	if reflect.TypeOf(v.goValue).AssignableTo(want) {
		return v.goValue, nil
	}
	if v.kind.text != nil && want.Kind() == reflect.String {
		return v.kind.text(v.goValue), nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", v.kind.name, want)
}

// ConvertToType converts to the type itself, to the type of the value, and to a
// string if the kind has a text.
func (v *value[T]) ConvertToType(want ref.Type) ref.Val {
	switch {
	case want.TypeName() == v.kind.typ.TypeName():
		return v
	case want == types.TypeType:
		return v.kind.typ
	case want == types.StringType && v.kind.text != nil:
		return types.String(v.kind.text(v.goValue))
	}
	return types.NewErr("type conversion error from '%s' to '%s'", v.kind.typ, want)
}

// Equal compares with another value of the kind; with any other there is no such
// overload.
func (v *value[T]) Equal(other ref.Val) ref.Val {
	o, ok := other.(*value[T])
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v.kind.equal(v.goValue, o.goValue))
}

// Type is the type of the kind.
func (v *value[T]) Type() ref.Type { return v.kind.typ }

// Value is the Go value.
func (v *value[T]) Value() any { return v.goValue }

// Size returns the size of the value for costs.
func (v *value[T]) Size() ref.Val {
	if v.kind.size == nil {
		return types.IntOne
	}
	return types.Int(v.kind.size(v.goValue))
}

func (v *value[T]) ours() {}

// isOurs reports whether a value is of a type of this package.
func isOurs(v ref.Val) bool {
	_, ok := v.(interface{ ours() })
	return ok
}

// argument is the Go value of an argument.
func argument[T any](arg ref.Val) (T, bool) {
	v, ok := arg.Value().(T)
	return v, ok
}

// unary binds a function of one Go value.
func unary[A any](f func(A) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(arg ref.Val) ref.Val {
		a, ok := argument[A](arg)
		if !ok {
			return types.MaybeNoSuchOverloadErr(arg)
		}
		return f(a)
	})
}

// binary binds a function of two Go values.
func binary[A, B any](f func(A, B) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(left, right ref.Val) ref.Val {
		a, ok := argument[A](left)
		if !ok {
			return types.MaybeNoSuchOverloadErr(left)
		}
		b, ok := argument[B](right)
		if !ok {
			return types.MaybeNoSuchOverloadErr(right)
		}
		return f(a, b)
	})
}

// checked binds a function that reports whether a string can be parsed.
func checked[T any](read func(string) (T, error)) cel.OverloadOpt {
	return unary(func(s string) ref.Val {
		_, err := read(s)
		return types.Bool(err == nil)
	})
}
