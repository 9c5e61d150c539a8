package environment

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// maxSharing is the maximum number of times that the value of an expression may contain the same existing
// value. Realistic policies and rules stay below it.
const maxSharing = 256

// sharing estimates how often the value of an expression contains the same list or map. A value is created
// once, but can be referenced many times: 30 repetitions of ".map(x, [x, x])" create only 60 lists, and their
// cost is that of 60 lists, but comparing, formatting or flattening the result visits 2³⁰ lists. CEL costs
// count the elements of a list but not their contents, so the expressions themselves must be limited. The
// estimate adds up the variables in literals, and assumes that each iteration of a loop adds as many references
// as the first one.
type sharing struct {
	ast       *ast.AST
	variables map[string]int // loop variables
	members   map[string]int // fields of the variable "variables"
	highest   int
}

// estimate returns the maximum number of times that the value of an expression contains the same value.
func (s *sharing) estimate(e ast.Expr) int {
	times := s.expression(e)
	if isScalar(s.ast.GetType(e.ID())) {
		return 0
	}
	times = min(times, maxSharing+1)
	s.highest = max(s.highest, times)
	return times
}

// isScalar reports whether values of a type contain no other values.
func isScalar(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind, types.StringKind,
		types.TimestampKind, types.TypeKind, types.UintKind:
		return true
	case types.OpaqueKind: // addresses and quantities; optional types have a parameter
		return len(t.Parameters()) == 0
	}
	return false
}

func (s *sharing) expression(e ast.Expr) int {
	switch e.Kind() {
	case ast.IdentKind:
		if times, ok := s.variables[e.AsIdent()]; ok {
			return times
		}
		return 1
	case ast.SelectKind:
		return s.selection(e.AsSelect())
	case ast.CallKind:
		return s.call(e.AsCall())
	case ast.ListKind:
		return s.sum(e.AsList().Elements()...)
	case ast.MapKind:
		times := 0
		for _, entry := range e.AsMap().Entries() {
			times += s.sum(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return times
	case ast.StructKind:
		times := 0
		for _, field := range e.AsStruct().Fields() {
			times += s.estimate(field.AsStructField().Value())
		}
		return times
	case ast.ComprehensionKind:
		return s.loop(e.AsComprehension())
	}
	return 0
}

func (s *sharing) sum(all ...ast.Expr) int {
	times := 0
	for _, e := range all {
		times += s.estimate(e)
	}
	return times
}

func (s *sharing) selection(e ast.SelectExpr) int {
	if of := e.Operand(); of.Kind() == ast.IdentKind && of.AsIdent() == "variables" {
		return max(1, s.members[e.FieldName()])
	}
	return s.estimate(e.Operand())
}

func (s *sharing) call(c ast.CallExpr) int {
	args := c.Args()
	if c.FunctionName() == operators.Conditional {
		s.estimate(args[0])
		return max(s.estimate(args[1]), s.estimate(args[2]))
	}
	times := s.sum(args...)
	if c.IsMemberFunction() {
		times += s.estimate(c.Target())
	}
	return times
}

// loop estimates a loop from its first iteration. It assumes that the elements that later iterations add
// contain as many references as those of the first iteration.
func (s *sharing) loop(c ast.ComprehensionExpr) int {
	held := max(1, s.estimate(c.IterRange()))
	defer bind(s.variables, c.IterVar(), held)()
	if c.HasIterVar2() {
		defer bind(s.variables, c.IterVar2(), held)()
	}
	times := s.estimate(c.AccuInit())
	defer bind(s.variables, c.AccuVar(), times)()
	s.estimate(c.LoopCondition())
	times = max(times, s.estimate(c.LoopStep()))
	s.variables[c.AccuVar()] = times
	return max(times, s.estimate(c.Result()))
}
