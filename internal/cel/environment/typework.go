package environment

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

// The limits that typeWork uses.
const (
	// maxTypeWork corresponds to about ten milliseconds of checking.
	maxTypeWork = 20_000
	// smallType is the maximum size of types that cost nothing. The types in realistic policies and rules are
	// smaller.
	smallType = 8
)

// typeWork estimates the cost of checking an expression from its syntax tree. cel-go's checker expands types
// into trees, and copies the tree for each expression of the type: 200 brackets around a value take three
// seconds to check. 14 repetitions of ".map(x, {x: x})", each of which doubles the size of the type, take
// twelve seconds.
type typeWork struct {
	variables map[string]int // type sizes of loop variables
	total     int
}

// sizeOf returns the approximate size of an expression's type. The size is 0 if the expression does not seem to
// be a list, map or optional value.
func (w *typeWork) sizeOf(e ast.Expr) int {
	if w.total > maxTypeWork {
		return 0
	}
	size := min(w.expression(e), maxTypeWork)
	if size > smallType {
		w.total += size * size
	}
	return size
}

func (w *typeWork) expression(e ast.Expr) int {
	switch e.Kind() {
	case ast.IdentKind:
		return w.variables[e.AsIdent()]
	case ast.SelectKind:
		return max(0, w.sizeOf(e.AsSelect().Operand())-1)
	case ast.CallKind:
		return w.call(e.AsCall())
	case ast.ListKind:
		return 1 + w.largest(e.AsList().Elements()...)
	case ast.MapKind:
		keys, values := 0, 0
		for _, entry := range e.AsMap().Entries() {
			keys, values = max(keys, w.sizeOf(entry.AsMapEntry().Key())), max(values, w.sizeOf(entry.AsMapEntry().Value()))
		}
		return 1 + keys + values
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			w.sizeOf(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		return w.loop(e.AsComprehension())
	}
	return 0
}

func (w *typeWork) largest(all ...ast.Expr) int {
	size := 0
	for _, e := range all {
		size = max(size, w.sizeOf(e))
	}
	return size
}

func (w *typeWork) call(c ast.CallExpr) int {
	size := w.largest(c.Args()...)
	if c.IsMemberFunction() {
		size = max(size, w.sizeOf(c.Target()))
	}
	switch c.FunctionName() {
	case "dyn", operators.Equals, operators.NotEquals, operators.In, operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		return 0
	case "of", "ofNonZeroValue": // optional.of and optional.ofNonZeroValue
		return 1 + size
	}
	return size
}

func (w *typeWork) loop(c ast.ComprehensionExpr) int {
	defer bind(w.variables, c.IterVar(), max(0, w.sizeOf(c.IterRange())-1))()
	if c.HasIterVar2() {
		defer bind(w.variables, c.IterVar2(), w.variables[c.IterVar()])()
	}
	size := w.sizeOf(c.AccuInit())
	defer bind(w.variables, c.AccuVar(), size)()
	w.sizeOf(c.LoopCondition())
	size = max(size, w.sizeOf(c.LoopStep()))
	w.variables[c.AccuVar()] = size
	return max(size, w.sizeOf(c.Result()))
}

// bind sets a variable, and returns a function that restores its previous value.
func bind(variables map[string]int, name string, value int) (unbind func()) {
	before, had := variables[name]
	variables[name] = value
	return func() {
		if delete(variables, name); had {
			variables[name] = before
		}
	}
}
