package environment

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// maxSharing is how many times the value of an expression may hold a value that it was
// given: more than expressions of policies and rules do.
const maxSharing = 256

// sharing estimates how often the value of an expression contains an existing list or map. A value
// is created once and may be referenced many times: 30 repetitions of ".map(x, [x, x])" create 60
// lists and cost as much; compared, converted to text or flattened, they are 2³⁰. Costs count
// list elements without their content, so the expressions must be limited: literals count by their
// variables, and a loop may contain the sharing of its first iteration in each of its elements.
type sharing struct {
	ast       *ast.AST
	variables map[string]int // of loops
	members   map[string]int // of the variable "variables"
	most      int
}

// of returns how many times the value of an expression may hold the same value.
func (s *sharing) of(e ast.Expr) int {
	times := s.expression(e)
	if isScalar(s.ast.GetType(e.ID())) {
		return 0
	}
	times = min(times, maxSharing+1)
	s.most = max(s.most, times)
	return times
}

// isScalar reports whether values of a type hold no others.
func isScalar(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind, types.StringKind,
		types.TimestampKind, types.TypeKind, types.UintKind:
		return true
	case types.OpaqueKind: // an address, a quantity; but an optional value has a parameter
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
		return s.selected(e.AsSelect())
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
			times += s.of(field.AsStructField().Value())
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
		times += s.of(e)
	}
	return times
}

func (s *sharing) selected(e ast.SelectExpr) int {
	if of := e.Operand(); of.Kind() == ast.IdentKind && of.AsIdent() == "variables" {
		return max(1, s.members[e.FieldName()])
	}
	return s.of(e.Operand())
}

func (s *sharing) call(c ast.CallExpr) int {
	args := c.Args()
	if c.FunctionName() == operators.Conditional {
		s.of(args[0])
		return max(s.of(args[1]), s.of(args[2]))
	}
	times := s.sum(args...)
	if c.IsMemberFunction() {
		times += s.of(c.Target())
	}
	return times
}

// loop: that elements are added again and again costs as much each time.
func (s *sharing) loop(c ast.ComprehensionExpr) int {
	held := max(1, s.of(c.IterRange()))
	defer bind(s.variables, c.IterVar(), held)()
	if c.HasIterVar2() {
		defer bind(s.variables, c.IterVar2(), held)()
	}
	times := s.of(c.AccuInit())
	defer bind(s.variables, c.AccuVar(), times)()
	s.of(c.LoopCondition())
	times = max(times, s.of(c.LoopStep()))
	s.variables[c.AccuVar()] = times
	return max(times, s.of(c.Result()))
}
