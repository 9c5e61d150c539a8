package library

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Lists returns the library of functions on lists:
//
//	<list<T>>.isSorted() <bool>          for an ordered T
//	<list<T>>.min() <T>, .max() <T>      for an ordered T; an error for an empty list
//	<list<T>>.sum() <T>                  for numbers and durations; 0 for an empty list
//	<list<T>>.indexOf(<T>) <int>         -1 if the list does not contain the value
//	<list<T>>.lastIndexOf(<T>) <int>     likewise, from the end
func Lists() cel.EnvOption {
	element := cel.TypeParamType("A")
	list := cel.ListType(element)
	return cel.Lib(library{name: "kubernetes.lists", options: []cel.EnvOption{
		listFunction("isSorted", orderedTypes(), func(t *cel.Type) cel.FunctionOpt {
			return cel.MemberOverload("list_"+overloadName(t)+"_is_sorted_bool", signature(cel.ListType(t)), cel.BoolType, cel.UnaryBinding(isSorted))
		}),
		listFunction("min", orderedTypes(), minMaxOverload("min", types.IntOne)),
		listFunction("max", orderedTypes(), minMaxOverload("max", types.IntNegOne)),
		listFunction("sum", []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, cel.DurationType}, sumOverload),
		cel.Function("indexOf", cel.MemberOverload("list_a_index_of_int", signature(list, element), cel.IntType, cel.BinaryBinding(indexOf))),
		cel.Function("lastIndexOf", cel.MemberOverload("list_a_last_index_of_int", signature(list, element), cel.IntType, cel.BinaryBinding(lastIndexOf))),
	}})
}

// orderedTypes returns the ordered types. If the type of the elements of a list is not known, cel-go selects
// the overload for the first type.
func orderedTypes() []*cel.Type {
	return []*cel.Type{
		cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType,
		cel.DurationType, cel.TimestampType, cel.StringType, cel.BytesType,
	}
}

// overloadName returns the name that represents a type in overload identifiers.
func overloadName(t *cel.Type) string {
	switch t {
	case cel.DurationType:
		return "duration"
	case cel.TimestampType:
		return "timestamp"
	}
	return t.TypeName()
}

// listFunction declares a function with an overload for lists of each type.
func listFunction(name string, elements []*cel.Type, overload func(*cel.Type) cel.FunctionOpt) cel.EnvOption {
	overloads := make([]cel.FunctionOpt, len(elements))
	for i, t := range elements {
		overloads[i] = overload(t)
	}
	return cel.Function(name, overloads...)
}

func isSorted(list ref.Val) ref.Val {
	var previous traits.Comparer
	for it := list.(traits.Iterable).Iterator(); it.HasNext() == types.True; {
		next := it.Next()
		comparer, ok := next.(traits.Comparer)
		if !ok {
			return types.MaybeNoSuchOverloadErr(next)
		}
		// Values that cannot be compared, such as NaN, count as ordered.
		if previous != nil && previous.Compare(next) == types.IntOne {
			return types.False
		}
		previous = comparer
	}
	return types.True
}

// minMaxOverload returns the overload of min or max for lists of a type. worse is the result of comparing an
// element with a better one.
func minMaxOverload(name string, worse ref.Val) func(*cel.Type) cel.FunctionOpt {
	best := func(list ref.Val) ref.Val {
		var best ref.Val
		for it := list.(traits.Iterable).Iterator(); it.HasNext() == types.True; {
			next := it.Next()
			if _, ok := next.(traits.Comparer); !ok {
				return types.MaybeNoSuchOverloadErr(next)
			}
			if best == nil || best.(traits.Comparer).Compare(next) == worse {
				best = next
			}
		}
		if best == nil {
			return types.NewErr("%s called on empty list", name)
		}
		return best
	}
	return func(t *cel.Type) cel.FunctionOpt {
		id := "list_" + overloadName(t) + "_" + name + "_" + overloadName(t)
		return cel.MemberOverload(id, signature(cel.ListType(t)), t, cel.UnaryBinding(best))
	}
}

// sumOverload returns the overload of sum for lists of a type.
func sumOverload(t *cel.Type) cel.FunctionOpt {
	var zero ref.Val
	switch t {
	case cel.IntType:
		zero = types.IntZero
	case cel.UintType:
		zero = types.Uint(0)
	case cel.DoubleType:
		zero = types.Double(0)
	case cel.DurationType:
		zero = types.Duration{}
	}
	sum := func(list ref.Val) ref.Val {
		sum := zero
		for it := list.(traits.Iterable).Iterator(); it.HasNext() == types.True; {
			adder, ok := sum.(traits.Adder)
			if !ok { // an overflow, or another error
				return types.MaybeNoSuchOverloadErr(sum)
			}
			sum = adder.Add(it.Next())
		}
		return sum
	}
	id := "list_" + overloadName(t) + "_sum_" + overloadName(t)
	return cel.MemberOverload(id, signature(cel.ListType(t)), t, cel.UnaryBinding(sum))
}

func indexOf(list, item ref.Val) ref.Val {
	lister := list.(traits.Lister)
	for i, n := types.Int(0), lister.Size().(types.Int); i < n; i++ {
		if lister.Get(i).Equal(item) == types.True {
			return i
		}
	}
	return types.IntNegOne
}

func lastIndexOf(list, item ref.Val) ref.Val {
	lister := list.(traits.Lister)
	for i := lister.Size().(types.Int) - 1; i >= 0; i-- {
		if lister.Get(i).Equal(item) == types.True {
			return i
		}
	}
	return types.IntNegOne
}

// scanCostModel returns the cost model for visiting each element of a list once and comparing its strings. It
// also applies to string functions of the same name.
func scanCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			whole := c.size(*c.target)
			element, ok := elementOf(*c.target)
			if !ok {
				return callEstimate(whole.MultiplyByCostFactor(traversal))
			}
			each := checker.FixedCostEstimate(1)
			if k := element.Type().Kind(); k == types.StringKind || k == types.BytesKind {
				each = each.Add(c.size(element).MultiplyByCostFactor(traversal))
			}
			return callEstimate(whole.MultiplyByCost(each))
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) < 1 {
				return actualCost(0)
			}
			return actualCost(scanCost(c.args[0]))
		},
	}
}

// scanCost returns the cost of visiting a value and all values in it.
func scanCost(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(float64(len(v)) * traversal)
	case types.Bytes:
		return uint64(float64(len(v)) * traversal)
	case traits.Mapper:
		var cost uint64
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			cost += scanCost(key) + scanCost(v.Get(key))
		}
		return cost
	case traits.Lister:
		var cost uint64
		for it := v.Iterator(); it.HasNext() == types.True; {
			cost += scanCost(it.Next())
		}
		return cost
	}
	return 1
}

// elementNode represents the elements of a list in an expression.
type elementNode struct {
	path []string
	typ  *types.Type
}

// elementOf returns a node for the elements of a list, or false if the argument is not a list. If the list has
// a path, the node has one too, so that the limits in the schema apply.
func elementOf(list checker.AstNode) (checker.AstNode, bool) {
	params := list.Type().Parameters()
	if len(params) == 0 {
		return nil, false
	}
	var path []string
	if p := list.Path(); p != nil {
		path = append(slices.Clip(p), "@items")
	}
	return elementNode{path, params[0]}, true
}

// Path implements checker.AstNode. It returns the path of the list followed by "@items", or nil if
// the list has no path.
func (n elementNode) Path() []string { return n.path }

// Type implements checker.AstNode.
func (n elementNode) Type() *types.Type { return n.typ }

// Expr implements checker.AstNode. It returns nil, because no subexpression represents the
// elements.
func (n elementNode) Expr() ast.Expr { return nil }

// ComputedSize implements checker.AstNode. It returns nil, because the expression does not
// determine the size.
func (n elementNode) ComputedSize() *checker.SizeEstimate { return nil }
