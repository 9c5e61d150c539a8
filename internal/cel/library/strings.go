package library

import (
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
)

// sameSizeCostModel returns the cost model for string functions whose result is at most as long as the
// receiver.
func sameSizeCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			s := c.size(*c.target)
			return callEstimateWithSize(s.MultiplyByCostFactor(traversal), s)
		},
		actual: readCostModel(1).actual,
	}
}

// replaceCostModel returns the cost model for reading a string and writing another one.
func replaceCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil || len(c.args) < 2 {
				return nil
			}
			s, from, to := c.size(*c.target), c.size(c.args[0]), c.size(c.args[1])
			return callEstimateWithSize(s.MultiplyByCostFactor(2*traversal), checker.SizeEstimate{
				Min: replacedSize(s.Min, from.Max, to.Min, from.Max <= to.Min),
				Max: replacedSize(s.Max, from.Min, to.Max, to.Max <= from.Min),
			})
		},
		actual: readCostModel(2).actual,
	}
}

// replacedSize returns the maximum size of a string of size s after parts of size from have been replaced with
// parts of size to. unchanged means that the size cannot grow. Otherwise, replacedSize assumes the maximum
// number of replacements. Empty parts match around each character.
func replacedSize(s, from, to uint64, unchanged bool) uint64 {
	fixed := checker.FixedSizeEstimate
	switch {
	case from == 0:
		return fixed(s).Add(fixed(1)).Multiply(fixed(to)).Add(fixed(s)).Max
	case unchanged:
		return s
	}
	count := s / from
	if s%from != 0 {
		count++
	}
	return fixed(count).Multiply(fixed(to)).Max
}

// splitCostModel returns the cost model for reading a string and creating a list from it. Unless the limit is a
// literal, the list may have as many elements as the string has characters.
func splitCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			s := c.size(*c.target)
			most := s.Max
			if len(c.args) > 1 && c.args[1].Expr().Kind() == ast.LiteralKind {
				if limit, ok := argument[int64](c.args[1].Expr().AsLiteral()); ok {
					most = uint64(limit) // -1, no limit, becomes the maximum
				}
			}
			return callEstimateWithSize(s.MultiplyByCostFactor(2*traversal), checker.SizeEstimate{Max: most})
		},
		actual: readCostModel(2).actual,
	}
}

// joinCostModel returns the cost model for writing the joined string.
func joinCostModel() costModel {
	return costModel{
		estimate: func(c estimatedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			list := c.size(*c.target)
			var s checker.SizeEstimate
			if element, ok := elementOf(*c.target); ok {
				s = list.Multiply(c.size(element))
			}
			if len(c.args) > 0 {
				gaps := checker.SizeEstimate{Min: max(list.Min, 1) - 1, Max: max(list.Max, 1) - 1}
				s = s.Add(c.size(c.args[0]).Multiply(gaps))
			}
			return callEstimateWithSize(s.MultiplyByCostFactor(traversal), s)
		},
		actual: func(c executedCall) *uint64 {
			if len(c.args) < 1 {
				return nil
			}
			return actualCost(readCost(size(c.result), 2))
		},
	}
}
