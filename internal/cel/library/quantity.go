package library

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/codec/quantity"
)

// Quantity returns the library of quantities such as "1.5Gi" and "200m":
//
//	quantity(<string>) <Quantity>               an error for an invalid quantity
//	isQuantity(<string>) <bool>
//	<Quantity>.isInteger() <bool>               whether asInteger succeeds
//	<Quantity>.asInteger() <int>                an error if the quantity is not an integer or is out of range
//	<Quantity>.asApproximateFloat() <double>    the nearest number; infinity if out of range
//	sign(<Quantity>) <int>                      -1, 0 or 1
//	<Quantity>.add(<Quantity|int>) <Quantity>   also sub
//	<Quantity>.compareTo(<Quantity>) <int>      -1, 0 or 1
//	<Quantity>.isLessThan(<Quantity>) <bool>    also isGreaterThan
//
// Quantities that exceed the limits in package codec/quantity are invalid. Two quantities are equal if their
// amounts are equal, even if their notations differ.
func Quantity() cel.EnvOption {
	q := &kind[*resource.Quantity]{
		name:  "Quantity",
		typ:   cel.ObjectType(quantityTypeName),
		equal: func(a, b *resource.Quantity) bool { return a.Equal(*b) },
	}
	options := []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", signature(cel.StringType), q.typ, unary(func(s string) ref.Val {
			amount, err := quantity.Parse(s)
			if err != nil {
				return types.WrapErr(err)
			}
			return q.wrap(&amount)
		}))),
		cel.Function("isQuantity", cel.Overload("is_quantity_string", signature(cel.StringType), cel.BoolType, canParse(quantity.Parse))),
		// kube-apiserver documents sign as a member function, but declares it as a global one.
		cel.Function("sign", cel.Overload("quantity_sign", signature(q.typ), cel.IntType,
			unary(func(a *resource.Quantity) ref.Val { return types.Int(a.Sign()) }))),
		cel.Function("isInteger", cel.MemberOverload("quantity_is_integer", signature(q.typ), cel.BoolType, unary(isInteger))),
		cel.Function("asInteger", cel.MemberOverload("quantity_get_int", signature(q.typ), cel.IntType, unary(asInteger))),
		cel.Function("asApproximateFloat", cel.MemberOverload("quantity_get_float", signature(q.typ), cel.DoubleType,
			unary(func(a *resource.Quantity) ref.Val { return types.Double(a.AsApproximateFloat64()) }))),
		arithmetic(q, "add", (*resource.Quantity).Add),
		arithmetic(q, "sub", (*resource.Quantity).Sub),
	}
	return cel.Lib(library{name: "kubernetes.quantity", options: append(options, comparisons("quantity", q.typ,
		func(a, b *resource.Quantity) int { c := *a; return c.Cmp(*b) })...)}) // Cmp may modify its receiver
}

func isInteger(a *resource.Quantity) ref.Val {
	_, ok := a.AsInt64()
	return types.Bool(ok)
}

func asInteger(a *resource.Quantity) ref.Val {
	n, ok := a.AsInt64()
	if !ok {
		return types.NewErr("cannot convert value to integer")
	}
	return types.Int(n)
}

// arithmetic declares a function that applies an operation to a copy of a quantity. The second operand is a
// quantity or an integer.
func arithmetic(q *kind[*resource.Quantity], name string, change func(a *resource.Quantity, by resource.Quantity)) cel.EnvOption {
	changed := func(a *resource.Quantity, by resource.Quantity) ref.Val {
		// Copy deeply, because large amounts are stored behind a pointer, and the operation modifies them in
		// place.
		result := a.DeepCopy()
		change(&result, by)
		return q.wrap(&result)
	}
	return cel.Function(name,
		cel.MemberOverload("quantity_"+name, signature(q.typ, q.typ), q.typ,
			binary(func(a, by *resource.Quantity) ref.Val { return changed(a, *by) })),
		cel.MemberOverload("quantity_"+name+"_int", signature(q.typ, cel.IntType), q.typ,
			binary(func(a *resource.Quantity, by int64) ref.Val {
				return changed(a, *resource.NewQuantity(by, resource.DecimalExponent))
			})))
}

// comparisons declares isGreaterThan, isLessThan and compareTo for a type.
func comparisons[T any](prefix string, typ *cel.Type, compare func(a, b T) int) []cel.EnvOption {
	two := signature(typ, typ)
	return []cel.EnvOption{
		cel.Function("isGreaterThan", cel.MemberOverload(prefix+"_is_greater_than", two, cel.BoolType,
			binary(func(a, b T) ref.Val { return types.Bool(compare(a, b) > 0) }))),
		cel.Function("isLessThan", cel.MemberOverload(prefix+"_is_less_than", two, cel.BoolType,
			binary(func(a, b T) ref.Val { return types.Bool(compare(a, b) < 0) }))),
		cel.Function("compareTo", cel.MemberOverload(prefix+"_compare_to", two, cel.IntType,
			binary(func(a, b T) ref.Val { return types.Int(compare(a, b)) }))),
	}
}
