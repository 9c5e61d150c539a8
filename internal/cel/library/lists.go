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

// Lists is what is asked of whole lists:
//
//	<list<T>>.isSorted() <bool>          T can be ordered
//	<list<T>>.min() <T>, .max() <T>      T can be ordered; an error for an empty list
//	<list<T>>.sum() <T>                  T is a number or a duration; 0 for an empty list
//	<list<T>>.indexOf(<T>) <int>         -1 where there is none
//	<list<T>>.lastIndexOf(<T>) <int>     the same from the end
func Lists() cel.EnvOption {
	element := cel.TypeParamType("A")
	list := cel.ListType(element)
	return cel.Lib(library{name: "kubernetes.lists", options: []cel.EnvOption{
		forEach("isSorted", orderedTypes(), func(t *cel.Type) cel.FunctionOpt {
			return cel.MemberOverload("list_"+overloadName(t)+"_is_sorted_bool", signature(cel.ListType(t)), cel.BoolType, cel.UnaryBinding(isSorted))
		}),
		forEach("min", orderedTypes(), extreme("min", types.IntOne)),
		forEach("max", orderedTypes(), extreme("max", types.IntNegOne)),
		forEach("sum", []*cel.Type{cel.IntType, cel.UintType, cel.DoubleType, cel.DurationType}, summed),
		cel.Function("indexOf", cel.MemberOverload("list_a_index_of_int", signature(list, element), cel.IntType, cel.BinaryBinding(indexOf))),
		cel.Function("lastIndexOf", cel.MemberOverload("list_a_last_index_of_int", signature(list, element), cel.IntType, cel.BinaryBinding(lastIndexOf))),
	}})
}

// orderedTypes are the ordered types. A list of unknown elements uses the overload of the first
// type.
func orderedTypes() []*cel.Type {
	return []*cel.Type{
		cel.IntType, cel.UintType, cel.DoubleType, cel.BoolType,
		cel.DurationType, cel.TimestampType, cel.StringType, cel.BytesType,
	}
}

// overloadName returns the name of a type in overload identifiers.
func overloadName(t *cel.Type) string {
	switch t {
	case cel.DurationType:
		return "duration"
	case cel.TimestampType:
		return "timestamp"
	}
	return t.TypeName()
}

// forEach declares a function with an overload for lists of each type.
func forEach(name string, elements []*cel.Type, overload func(*cel.Type) cel.FunctionOpt) cel.EnvOption {
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

// extreme is the overload of min or max: the element that compares with no other
// one as worse.
func extreme(name string, worse ref.Val) func(*cel.Type) cel.FunctionOpt {
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

// summed is the overload of sum for lists of a type.
func summed(t *cel.Type) cel.FunctionOpt {
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

// scanPrice is that of looking at each element of a list once, and of comparing
// strings. Functions of that name exist for strings too.
func scanPrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			whole := c.size(*c.target)
			element, ok := elementOf(*c.target)
			if !ok {
				return costs(whole.MultiplyByCostFactor(traversal))
			}
			each := checker.FixedCostEstimate(1)
			if k := element.Type().Kind(); k == types.StringKind || k == types.BytesKind {
				each = each.Add(c.size(element).MultiplyByCostFactor(traversal))
			}
			return costs(whole.MultiplyByCost(each))
		},
		actual: func(c madeCall) *uint64 {
			if len(c.args) < 1 {
				return exactly(0)
			}
			return exactly(scanCost(c.args[0]))
		},
	}
}

// scanCost is the cost of looking at all that is in a value.
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

// elementNode is any element of a list in an expression.
type elementNode struct {
	path []string
	typ  *types.Type
}

// elementOf returns a node for the elements of a list; false if it is not a list. It has a path if
// the list has one, so that limits of the schema apply.
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

// Path returns the path of the list with "@items"; nil without one.
func (n elementNode) Path() []string { return n.path }

// Type is the type of the elements.
func (n elementNode) Type() *types.Type { return n.typ }

// Expr returns nil: no subexpression represents the elements.
func (n elementNode) Expr() ast.Expr { return nil }

// ComputedSize is nil: unknown from the expression.
func (n elementNode) ComputedSize() *checker.SizeEstimate { return nil }
