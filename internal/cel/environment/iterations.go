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

// iterations keeps the cost of counting costs in proportion.
//
// cel-go counts with a stack of the values of all steps, on which each call looks
// for its arguments, and each name and each && for what is not there: then through
// the whole stack. A loop leaves two values there each time around, until it ends.
// So a loop takes time in the square of its length: one over 100,000 numbers costs
// 600,000 units, within the limit, and takes a minute.
//
// Here the condition of a loop is the argument of a function, and the call of that
// says that its arguments include its own value of the last time around. Taking its
// arguments off the stack takes off all that lies above them, which is what the
// loop has left. The function gives back its argument, for nothing: costs, before
// and after, are what they were.
type iterations struct{}

var _ cel.SingletonLibrary = iterations{}

// LibraryName is what the environment knows the library by.
func (iterations) LibraryName() string { return "mainstay.iterations" }

// CompileOptions change all macros that there are; so this library comes last.
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

// ProgramOptions let the calls of the function clear the stack, for nothing.
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

// Args is the call itself, and its argument. The first time around it has no value
// yet: then nothing is there to be cleared.
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

// mark leaves the condition of what is no loop, but gives a value a name: cel-go
// knows it by that.
func (m marker) mark(condition ast.Expr) ast.Expr {
	if condition.Kind() == ast.LiteralKind && condition.AsLiteral() == types.False {
		return condition
	}
	return m.NewCall(iteration, condition)
}
