package library

import (
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
)

// sameSizePrice is the cost of string functions whose result is at most as long as their receiver.
func sameSizePrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			s := c.size(*c.target)
			return costsAndMakes(s.MultiplyByCostFactor(traversal), s)
		},
		actual: readPrice(1).actual,
	}
}

// replacePrice is that of reading a string and writing another one.
func replacePrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if c.target == nil || len(c.args) < 2 {
				return nil
			}
			s, from, to := c.size(*c.target), c.size(c.args[0]), c.size(c.args[1])
			return costsAndMakes(s.MultiplyByCostFactor(2*traversal), checker.SizeEstimate{
				Min: replacedSize(s.Min, from.Max, to.Min, from.Max <= to.Min),
				Max: replacedSize(s.Max, from.Min, to.Max, to.Max <= from.Min),
			})
		},
		actual: readPrice(2).actual,
	}
}

// replacedSize returns the maximum length of a string after replacing parts of one size with parts
// of another. unchanged means that the length cannot grow; otherwise it assumes as many
// replacements as possible. Empty parts match around each character.
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

// splitPrice is that of reading a string and making a list of it, of as many
// elements as there are characters if no limit is given as a literal.
func splitPrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
			if c.target == nil {
				return nil
			}
			s := c.size(*c.target)
			most := s.Max
			if len(c.args) > 1 && c.args[1].Expr().Kind() == ast.LiteralKind {
				if limit, ok := argument[int64](c.args[1].Expr().AsLiteral()); ok {
					most = uint64(limit) // -1, all, is more than any string has
				}
			}
			return costsAndMakes(s.MultiplyByCostFactor(2*traversal), checker.SizeEstimate{Max: most})
		},
		actual: readPrice(2).actual,
	}
}

// joinPrice is that of writing the string that a list of strings makes.
func joinPrice() price {
	return price{
		estimate: func(c plannedCall) *checker.CallEstimate {
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
			return costsAndMakes(s.MultiplyByCostFactor(traversal), s)
		},
		actual: func(c madeCall) *uint64 {
			if len(c.args) < 1 {
				return nil
			}
			return exactly(readCost(size(c.result), 2))
		},
	}
}
