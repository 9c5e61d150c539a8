package library

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// The names of the CEL types that this package defines.
const (
	urlTypeName      = "kubernetes.URL"
	ipTypeName       = "net.IP"
	cidrTypeName     = "net.CIDR"
	quantityTypeName = "kubernetes.Quantity"
	formatTypeName   = "kubernetes.NamedFormat"
	semverTypeName   = "kubernetes.Semver"
)

// kind is a CEL type whose values wrap Go values of type T.
type kind[T any] struct {
	name  string // used in error messages
	typ   *cel.Type
	equal func(a, b T) bool
	text  func(T) string // nil means that values cannot be converted to a string
	size  func(T) int    // in bytes; nil means 1
}

// wrap wraps a Go value.
func (k *kind[T]) wrap(v T) ref.Val { return &value[T]{kind: k, goValue: v} }

// value is an immutable CEL value of a kind.
type value[T any] struct {
	kind    *kind[T]
	goValue T
}

// ConvertToNative implements ref.Val. It returns the Go value, or its text if a string is wanted.
func (v *value[T]) ConvertToNative(want reflect.Type) (any, error) {
	if reflect.TypeOf(v.goValue).AssignableTo(want) {
		return v.goValue, nil
	}
	if v.kind.text != nil && want.Kind() == reflect.String {
		return v.kind.text(v.goValue), nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", v.kind.name, want)
}

// ConvertToType implements ref.Val. It supports the type of the value, the type of types, and strings if the
// kind has a text function.
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

// Equal implements ref.Val. A comparison with a value of another type results in an error.
func (v *value[T]) Equal(other ref.Val) ref.Val {
	o, ok := other.(*value[T])
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return types.Bool(v.kind.equal(v.goValue, o.goValue))
}

// Type implements ref.Val.
func (v *value[T]) Type() ref.Type { return v.kind.typ }

// Value implements ref.Val.
func (v *value[T]) Value() any { return v.goValue }

// Size implements traits.Sizer. It is used for costs.
func (v *value[T]) Size() ref.Val {
	if v.kind.size == nil {
		return types.IntOne
	}
	return types.Int(v.kind.size(v.goValue))
}

func (v *value[T]) libraryValue() {}

// isLibraryValue reports whether the type of a value is defined in this package.
func isLibraryValue(v ref.Val) bool {
	_, ok := v.(interface{ libraryValue() })
	return ok
}

// argument returns the Go value of an argument, or false if the Go value is not a T.
func argument[T any](arg ref.Val) (T, bool) {
	v, ok := arg.Value().(T)
	return v, ok
}

// unary returns the binding of a function with one argument, a Go value.
func unary[A any](f func(A) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(arg ref.Val) ref.Val {
		a, ok := argument[A](arg)
		if !ok {
			return types.MaybeNoSuchOverloadErr(arg)
		}
		return f(a)
	})
}

// binary returns the binding of a function with two arguments, Go values.
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

// canParse returns the binding of a function that reports whether read accepts a string.
func canParse[T any](read func(string) (T, error)) cel.OverloadOpt {
	return unary(func(s string) ref.Val {
		_, err := read(s)
		return types.Bool(err == nil)
	})
}
