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

// CostEstimator implements cel-go's cost estimation and cost tracking for the functions in this package, and
// for cel-go's string functions whose costs kube-apiserver redefines. It is safe for concurrent use if
// SizeEstimator is.
type CostEstimator struct {
	// SizeEstimator estimates the sizes of variables and their fields, and the costs of other
	// functions. It may be nil.
	SizeEstimator checker.CostEstimator
}

var (
	_ checker.CostEstimator           = (*CostEstimator)(nil)
	_ interpreter.ActualCostEstimator = (*CostEstimator)(nil)
)

// EstimateSize implements checker.CostEstimator. It returns the result of SizeEstimator, or nil.
func (e *CostEstimator) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if e.SizeEstimator == nil {
		return nil
	}
	return e.SizeEstimator.EstimateSize(element)
}

// EstimateCallCost implements checker.CostEstimator. It returns the estimated cost of a call, without the cost
// of the arguments, and the size of the result; nil selects cel-go's estimate. The estimate must equal
// kube-apiserver's, because it determines whether a definition is valid, and error messages contain it.
func (e *CostEstimator) EstimateCallCost(function, overloadID string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if p := costModelOf(function); p.estimate != nil {
		if estimate := p.estimate(estimatedCall{e, overloadID, target, args}); estimate != nil {
			return estimate
		}
	}
	if e.SizeEstimator == nil {
		return nil
	}
	return e.SizeEstimator.EstimateCallCost(function, overloadID, target, args)
}

// CallCost implements interpreter.ActualCostEstimator. It returns the actual cost of a call, without the cost
// of the arguments; nil selects cel-go's cost.
func (e *CostEstimator) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	if p := costModelOf(function); p.actual != nil {
		return p.actual(executedCall{overloadID, args, result})
	}
	return nil
}

// costModel computes the CEL cost of a function before a call (estimate) and after a call (actual). A nil
// function or result selects cel-go's default.
type costModel struct {
	estimate func(estimatedCall) *checker.CallEstimate
	actual   func(executedCall) *uint64
}

// estimatedCall is a call in an expression before evaluation.
type estimatedCall struct {
	estimator *CostEstimator
	overload  string
	target    *checker.AstNode // nil if the function is not a member
	args      []checker.AstNode
}

// executedCall is a call after evaluation. The first argument of a member function is its receiver.
type executedCall struct {
	overload string
	args     []ref.Val
	result   ref.Val
}

// costModelOf returns the cost model for all overloads of a function. The zero value selects cel-go's costs.
func costModelOf(function string) costModel {
	switch function {
	case "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf":
		return scanCostModel()
	case "find", "findAll":
		return searchCostModel()
	case "validate":
		return validateCostModel()
	case "url":
		return urlCostModel()
	case "cidr", "isCIDR", "isIP", "quantity", "isQuantity", "semver", "isSemver":
		return readCostModel(1)
	case "ip.isCanonical": // the string is parsed, and formatted again for comparison
		return readCostModel(2)
	case "ip":
		return ipCostModel()
	case "containsIP":
		return containsCostModel(containsIPString, false)
	case "containsCIDR":
		return containsCostModel(containsCIDRString, true)
	case "lowerAscii", "upperAscii", "substring", "trim":
		return sameSizeCostModel()
	case "replace":
		return replaceCostModel()
	case "split":
		return splitCostModel()
	case "join":
		return joinCostModel()
	case operators.Equals:
		return equalsCostModel()
	case overloads.TypeConvertString:
		return toStringCostModel()
	case "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery",
		"family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast",
		"masked", "prefixLength",
		"sign", "isInteger", "asInteger", "asApproximateFloat", "add", "sub",
		"isGreaterThan", "isLessThan", "compareTo", "major", "minor", "patch",
		"format.named",
		"path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "allowed", "reason", "errored", "error":
		return nominalCostModel()
	case "check":
		return checkCostModel()
	case "fieldSelector", "labelSelector":
		return selectorCostModel()
	case "jsonpatch.escapeKey":
		return readCostModel(1)
	}
	return costModel{}
}

const (
	traversal   = common.StringTraversalCostFactor
	regexFactor = common.RegexStringLengthCostFactor
)

func callEstimate(c checker.CostEstimate) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: c}
}

// callEstimateWithSize returns an estimate that includes the size of the result.
func callEstimateWithSize(c checker.CostEstimate, result checker.SizeEstimate) *checker.CallEstimate {
	return &checker.CallEstimate{CostEstimate: c, ResultSize: &result}
}

func actualCost(cost uint64) *uint64 { return &cost }

// nominalCostModel returns the cost model for functions that only read a part of a value.
func nominalCostModel() costModel {
	return costModel{
		estimate: func(estimatedCall) *checker.CallEstimate { return callEstimate(checker.FixedCostEstimate(1)) },
		actual:   func(executedCall) *uint64 { return actualCost(1) },
	}
}

// toStringCostModel returns the cost model for converting a scalar to a string. kube-apiserver assumes that the
// string can have any length, and therefore rejects a message such as "at most " + string(self.max).
func toStringCostModel() costModel {
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
	return costModel{estimate: func(c estimatedCall) *checker.CallEstimate {
		if n := longest(c.overload); n > 0 {
			return callEstimateWithSize(checker.FixedCostEstimate(1), checker.SizeEstimate{Min: 1, Max: n})
		}
		return nil
	}}
}

// readCostModel returns the cost model for functions that read their first argument, a string, the given number
// of times.
func readCostModel(times float64) costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if len(c.args) < 1 {
				return nil
			}
			return callEstimate(c.size(c.args[0]).MultiplyByCostFactor(times * traversal))
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) < 1 {
				return nil
			}
			return actualCost(readCost(size(c.args[0]), times))
		},
	}
}

// readCost returns the cost of reading a string of the given size the given number of times.
func readCost(size uint64, times float64) uint64 {
	return uint64(math.Ceil(float64(size) * times * traversal))
}

// matchCost returns the cost of matching a string of the given size with a regular expression. regex is the
// length of the regular expression. An empty string costs as much as one character.
func matchCost(size, regex uint64) uint64 {
	return uint64(math.Ceil((1+float64(size))*traversal)) * uint64(math.Ceil(float64(regex)*regexFactor))
}

// equalsCostModel returns the cost model for comparing values whose types this package defines. cel-go assumes
// that the size of such values is unbounded.
func equalsCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if len(c.args) != 2 || !c.args[0].Type().IsExactType(c.args[1].Type()) {
				return nil
			}
			switch c.args[0].Type().TypeName() {
			case ipTypeName, cidrTypeName, quantityTypeName, semverTypeName:
				return callEstimate(checker.FixedCostEstimate(1))
			case formatTypeName:
				return callEstimate(checker.CostEstimate{Min: 1, Max: maxFormatName}.MultiplyByCostFactor(traversal))
			case urlTypeName:
				longest := uint64(1)
				if right := c.args[1].ComputedSize(); right != nil {
					longest = right.Max
				}
				return callEstimate(checker.CostEstimate{Min: 1, Max: longest}.MultiplyByCostFactor(traversal))
			}
			return nil
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) != 2 || !isLibraryValue(c.args[0]) {
				return nil
			}
			return actualCost(1)
		},
	}
}

// maxFormatName is an upper bound of the length of format names.
const maxFormatName = 64

// size returns the estimated size of a node, from the expression or from the schema. If neither limits the
// size, the result is unbounded.
func (c estimatedCall) size(node checker.AstNode) checker.SizeEstimate {
	if s := node.ComputedSize(); s != nil {
		return *s
	}
	if s := c.estimator.EstimateSize(node); s != nil {
		return *s
	}
	return checker.UnknownSizeEstimate()
}

// size returns the size of a value, or 1 if the value has no size.
func size(v ref.Val) uint64 {
	if sizer, ok := v.(traits.Sizer); ok {
		if n, ok := sizer.Size().(types.Int); ok && n >= 0 {
			return uint64(n)
		}
	}
	return 1
}
