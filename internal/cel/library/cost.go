package library

import (
	"math"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// CostEstimator estimates and tracks the costs of the functions of this package, and of those
// string functions of cel-go for which kube-apiserver defines costs. It is safe for concurrent use
// if SizeEstimator is.
type CostEstimator struct {
	// SizeEstimator estimates the sizes of variables and their fields, and the costs of other
	// functions. May be nil.
	SizeEstimator checker.CostEstimator
}

var (
	_ checker.CostEstimator           = (*CostEstimator)(nil)
	_ interpreter.ActualCostEstimator = (*CostEstimator)(nil)
)

// EstimateSize returns the result of SizeEstimator, or nil.
func (e *CostEstimator) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if e.SizeEstimator == nil {
		return nil
	}
	return e.SizeEstimator.EstimateSize(element)
}

// EstimateCallCost returns the estimated cost of a call, without its arguments, and the size of its
// result; nil selects cel-go's estimate. Users see the estimate in rejections of definitions, so it
// must equal kube-apiserver's.
func (e *CostEstimator) EstimateCallCost(function, overloadID string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if p := priceOf(function); p.estimate != nil {
		if estimate := p.estimate(plannedCall{e, overloadID, target, args}); estimate != nil {
			return estimate
		}
	}
	if e.SizeEstimator == nil {
		return nil
	}
	return e.SizeEstimator.EstimateCallCost(function, overloadID, target, args)
}

// CallCost returns the actual cost of a call, without its arguments; nil selects cel-go's cost.
func (e *CostEstimator) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	if p := priceOf(function); p.actual != nil {
		return p.actual(madeCall{overloadID, args, result})
	}
	return nil
}

// price estimates the CEL cost of a call. A nil result selects cel-go's default estimate.
type price struct {
	estimate func(plannedCall) *checker.CallEstimate
	actual   func(madeCall) *uint64
}

// plannedCall is a call in an expression.
type plannedCall struct {
	estimator *CostEstimator
	overload  string
	target    *checker.AstNode // nil if the function is no member
	args      []checker.AstNode
}

// madeCall is an executed call; the first argument of a member function is its receiver.
type madeCall struct {
	overload string
	args     []ref.Val
	result   ref.Val
}

// priceOf returns the price of a function, whichever its overload; the zero price
// for the functions that are left to cel-go.
func priceOf(function string) price {
	switch function {
	case "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf":
		return scanPrice()
	case "find", "findAll":
		return searchPrice()
	case "validate":
		return validatePrice()
	case "url":
		return urlPrice()
	case "cidr", "isCIDR", "isIP", "quantity", "isQuantity", "semver", "isSemver":
		return readPrice(1)
	case "ip.isCanonical": // read, and written for comparison
		return readPrice(2)
	case "ip":
		return ipPrice()
	case "containsIP":
		return containsPrice(containsIPString, false)
	case "containsCIDR":
		return containsPrice(containsCIDRString, true)
	case "lowerAscii", "upperAscii", "substring", "trim":
		return sameSizePrice()
	case "replace":
		return replacePrice()
	case "split":
		return splitPrice()
	case "join":
		return joinPrice()
	case operators.Equals:
		return equalsPrice()
	case overloads.TypeConvertString:
		return textPrice()
	case "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery",
		"family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
		"masked", "prefixLength",
		"sign", "isInteger", "asInteger", "asApproximateFloat", "add", "sub",
		"isGreaterThan", "isLessThan", "compareTo", "major", "minor", "patch",
		"format.named",
		"path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "allowed", "reason", "errored", "error":
		return nominalPrice()
	case "check":
		return checkPrice()
	case "fieldSelector", "labelSelector":
		return selectorPrice()
	case "jsonpatch.escapeKey":
		return readPrice(1)
	}
	return price{}
}

const (
	traversal   = common.StringTraversalCostFactor
	regexFactor = common.RegexStringLengthCostFactor
)

func costs(c checker.CostEstimate) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: c}
}

// costsAndMakes is a cost with the size of the result.
func costsAndMakes(c checker.CostEstimate, result checker.SizeEstimate) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: c, ResultSize: &result}
}

func exactly(cost uint64) *uint64 { return &cost }

// nominalPrice is that of looking at a part of a value.
func nominalPrice() price {
	return price{
		estimate: func(plannedCall) *checker.CallEstimate { return costs(checker.FixedCostEstimate(1)) },
		actual:   func(madeCall) *uint64 { return exactly(1) },
	}
}

// textPrice is the cost of converting a scalar to text. kube-apiserver does not bound the text, so
// a message such as "at most " + string(self.max) counts as unbounded and is rejected.
func textPrice() price {
	longest := func(overload string) uint64 {
		switch overload {
		case overloads.BoolToString:
			return uint64(len("false"))
		case overloads.IntToString, overloads.UintToString:
			return uint64(len("-9223372036854775808"))
		case overloads.DoubleToString:
			return uint64(len("-1.7976931348623157e+308"))
		}
		return 0
	}
	return price{estimate: func(c plannedCall) *checker.CallEstimate {
		if n := longest(c.overload); n > 0 {
			return costsAndMakes(checker.FixedCostEstimate(1), checker.SizeEstimate{Min: 1, Max: n})
		}
		return nil
	}}
}

// readPrice is that of reading the string that is the first argument so many
// times.
func readPrice(times float64) price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if len(c.args) < 1 {
				return nil
			}
			return costs(c.size(c.args[0]).MultiplyByCostFactor(times * traversal))
		},
		actual: func(c madeCall) *uint64 {
			if len(c.args) < 1 {
				return nil
			}
			return exactly(readCost(size(c.args[0]), times))
		},
	}
}

// readCost is the cost of reading a string of a size so many times.
func readCost(size uint64, times float64) uint64 {
	return uint64(math.Ceil(float64(size) * times * traversal))
}

// matchCost is the cost of matching a string of a size with an expression of a
// length; that of an empty string is that of one character.
func matchCost(size, regex uint64) uint64 {
	return uint64(math.Ceil((1+float64(size))*traversal)) * uint64(math.Ceil(float64(regex)*regexFactor))
}

// equalsPrice is that of comparing values of the types of this package, which
// cel-go would take to be of any size.
func equalsPrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if len(c.args) != 2 || !c.args[0].Type().IsExactType(c.args[1].Type()) {
				return nil
			}
			switch c.args[0].Type().TypeName() {
			case ipTypeName, cidrTypeName, quantityTypeName, semverTypeName:
				return costs(checker.FixedCostEstimate(1))
			case formatTypeName:
				return costs(checker.CostEstimate{Min: 1, Max: maxFormatName}.MultiplyByCostFactor(traversal))
			case urlTypeName:
				longest := uint64(1)
				if right := c.args[1].ComputedSize(); right != nil {
					longest = right.Max
				}
				return costs(checker.CostEstimate{Min: 1, Max: longest}.MultiplyByCostFactor(traversal))
			}
			return nil
		},
		actual: func(c madeCall) *uint64 {
			if len(c.args) != 2 || !isOurs(c.args[0]) {
				return nil
			}
			return exactly(1)
		},
	}
}

// maxFormatName is an upper bound for the length of format names.
const maxFormatName = 64

// size returns the size estimate of a node: from the expression, the schema, or unbounded.
func (c plannedCall) size(node checker.AstNode) checker.SizeEstimate {
	if s := node.ComputedSize(); s != nil {
		return *s
	}
	if s := c.estimator.EstimateSize(node); s != nil {
		return *s
	}
	return checker.UnknownSizeEstimate()
}

// size returns the size of a value; 1 for values without a size.
func size(v ref.Val) uint64 {
	if sizer, ok := v.(traits.Sizer); ok {
		if n, ok := sizer.Size().(types.Int); ok && n >= 0 {
			return uint64(n)
		}
	}
	return 1
}
