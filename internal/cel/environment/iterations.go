package environment

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"
)

// iteration is the function that is called with the condition of each loop, and its
// overload. No expression can name it.
const iteration = "@iteration"

// iterations keeps the overhead of cost tracking proportional. The cost tracker of cel-go has a
// stack of the values of all steps. Each call searches its arguments on it, and each identifier and
// each && searches the whole stack. A loop leaves two values on it in each iteration until it ends,
// so the tracking of a loop takes quadratic time: a loop over 100,000 numbers costs 600,000 units,
// within the limit, and takes a minute. This library makes the condition of a loop the argument of
// a function, whose call reports its own value of the previous iteration as an argument. Removing
// the arguments from the stack also removes all values above them, which the loop has left. The
// function returns its argument at no cost, so costs are unchanged.
type iterations struct{}

var _ cel.SingletonLibrary = iterations{}

// LibraryName implements cel.SingletonLibrary.
func (iterations) LibraryName() string { return "mainstay.iterations" }

// CompileOptions modifies all existing macros, so this library must be the last one.
func (iterations) CompileOptions() []cel.EnvOption {
	free := func(checker.CostEstimator, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
		return &checker.CallEstimate{}
	}
	return []cel.EnvOption{
		cel.Function(iteration, cel.Overload(iteration, []*cel.Type{cel.BoolType}, cel.BoolType,
			cel.UnaryBinding(func(condition ref.Val) ref.Val { return condition }),
			decls.OverloadIsNonStrict())),
		cel.CostEstimatorOptions(checker.OverloadCostEstimate(iteration, free)),
		func(env *cel.Env) (*cel.Env, error) {
			macros := env.Macros()
			changed := make([]cel.Macro, len(macros))
			for i, m := range macros {
				changed[i] = marking{m}
			}
			env, err := cel.ClearMacros()(env)
			if err != nil {
				return nil, err
			}
			return cel.Macros(changed...)(env)
		},
	}
}

// ProgramOptions makes the calls of the function clear the stack at no cost.
func (iterations) ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
			if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() == iteration {
				return clearing{call}, nil
			}
			return i, nil
		}),
		cel.CostTrackerOptions(interpreter.OverloadCostTracker(iteration, func([]ref.Val, ref.Val) *uint64 {
			var free uint64
			return &free
		})),
	}
}

// clearing is a call that has its own last value for an argument.
type clearing struct{ interpreter.InterpretableCall }

// Args returns the call itself and its argument. In the first iteration, the call has no value, and
// the stack needs no clearing.
func (c clearing) Args() []interpreter.InterpretableV2 {
	return append([]interpreter.InterpretableV2{c}, c.InterpretableCall.Args()...)
}

// marking is a macro whose loops have marked conditions.
type marking struct{ cel.Macro }

// Expander is that of the macro, with another way to make loops.
func (m marking) Expander() cel.MacroFactory {
	expand := m.Macro.Expander()
	return func(h cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return expand(marker{h}, target, args)
	}
}

// marker makes loops with marked conditions.
type marker struct{ parser.ExprHelper }

// NewComprehension makes a loop with one variable.
func (m marker) NewComprehension(over ast.Expr, variable, accumulator string, init, condition, step, result ast.Expr) ast.Expr {
	return m.ExprHelper.NewComprehension(over, variable, accumulator, init, m.mark(condition), step, result)
}

// NewComprehensionTwoVar makes a loop with two variables.
func (m marker) NewComprehensionTwoVar(over ast.Expr, first, second, accumulator string, init, condition, step, result ast.Expr) ast.Expr {
	return m.ExprHelper.NewComprehensionTwoVar(over, first, second, accumulator, init, m.mark(condition), step, result)
}

// mark does not change the condition of an expression without a loop, except to assign it an ID, by
// which cel-go refers to it.
func (m marker) mark(condition ast.Expr) ast.Expr {
	if condition.Kind() == ast.LiteralKind && condition.AsLiteral() == types.False {
		return condition
	}
	return m.NewCall(iteration, condition)
}
