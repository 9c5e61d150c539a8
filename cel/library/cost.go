package library

import (
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types/ref"
)

// CostEstimator says what calls of the functions of this package cost: before
// they are made (checker.CostEstimator), and afterwards
// (interpreter.ActualCostEstimator). It may be used concurrently if SizeEstimator
// may.
type CostEstimator struct {
	// SizeEstimator bounds the sizes of variables and their fields, and what
	// functions cost that are not of this package. May be nil.
	SizeEstimator checker.CostEstimator
}

// EstimateSize returns what SizeEstimator says, nil without one.
func (e *CostEstimator) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if e.SizeEstimator == nil {
		return nil
	}
	return e.SizeEstimator.EstimateSize(element)
}

// EstimateCallCost returns the bounds of what a call may cost and of the size of
// its result; nil leaves both to cel-go.
func (e *CostEstimator) EstimateCallCost(function, overloadID string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if e.SizeEstimator == nil {
		return nil
	}
	return e.SizeEstimator.EstimateCallCost(function, overloadID, target, args)
}

// CallCost returns what a call has cost; nil leaves it to cel-go.
func (e *CostEstimator) CallCost(function, overloadID string, args []ref.Val, result ref.Val) *uint64 {
	return nil
}
