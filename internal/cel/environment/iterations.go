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

// iteration is the name of a function, and of its overload, that is applied to the condition of each loop.
// Expressions cannot call it, because "@" is not valid in identifiers.
const iteration = "@iteration"

// iterations keeps the overhead of cost tracking linear. cel-go's cost tracker has a stack with the values of
// all evaluated steps. Each call searches the stack for its arguments, and each identifier and each && searches
// the whole stack. A loop leaves two values on the stack in each iteration, so tracking a loop takes quadratic
// time: a loop over 100,000 numbers costs 600,000 units, which is below the limit, but takes a minute.
//
// This library wraps the condition of each loop in a function call. The call reports its own value from the
// previous iteration as an argument. When the tracker removes the arguments from the stack, it also removes all
// values above them, which are the values that the loop has left. The function returns its argument at no cost,
// so costs do not change.
type iterations struct{}

var _ cel.SingletonLibrary = iterations{}

// LibraryName implements cel.SingletonLibrary.
func (iterations) LibraryName() string { return "mainstay.iterations" }

// CompileOptions implements cel.Library. It modifies all macros that have been declared so far, so this library
// must be added last.
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
				changed[i] = markingMacro{m}
			}
			env, err := cel.ClearMacros()(env)
			if err != nil {
				return nil, err
			}
			return cel.Macros(changed...)(env)
		},
	}
}

// ProgramOptions implements cel.Library. With these options, calls of the function cost nothing and clear the
// stack.
func (iterations) ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
			if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() == iteration {
				return clearingCall{call}, nil
			}
			return i, nil
		}),
		cel.CostTrackerOptions(interpreter.OverloadCostTracker(iteration, func([]ref.Val, ref.Val) *uint64 {
			var free uint64
			return &free
		})),
	}
}

// clearingCall is a call that reports its own previous value as an argument, which clears the stack.
type clearingCall struct{ interpreter.InterpretableCall }

// Args returns the call itself and its argument. In the first iteration, the call has no previous
// value, and there is nothing to clear.
func (c clearingCall) Args() []interpreter.InterpretableV2 {
	return append([]interpreter.InterpretableV2{c}, c.InterpretableCall.Args()...)
}

// markingMacro is a macro that creates loops whose conditions are wrapped in calls of the function.
type markingMacro struct{ cel.Macro }

// Expander implements parser.Macro. It runs the expander of the original macro with a markingFactory.
func (m markingMacro) Expander() cel.MacroFactory {
	expand := m.Macro.Expander()
	return func(h cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return expand(markingFactory{h}, target, args)
	}
}

// markingFactory creates loops whose conditions are wrapped in calls of the function.
type markingFactory struct{ parser.ExprHelper }

// NewComprehension creates a loop with one variable.
func (m markingFactory) NewComprehension(over ast.Expr, variable, accumulator string, init, condition, step, result ast.Expr) ast.Expr {
	return m.ExprHelper.NewComprehension(over, variable, accumulator, init, m.mark(condition), step, result)
}

// NewComprehensionTwoVar creates a loop with two variables.
func (m markingFactory) NewComprehensionTwoVar(over ast.Expr, first, second, accumulator string, init, condition, step, result ast.Expr) ast.Expr {
	return m.ExprHelper.NewComprehensionTwoVar(over, first, second, accumulator, init, m.mark(condition), step, result)
}

// mark wraps a condition in a call of the function. It does not change the condition false, because the
// expression is then not a loop.
func (m markingFactory) mark(condition ast.Expr) ast.Expr {
	if condition.Kind() == ast.LiteralKind && condition.AsLiteral() == types.False {
		return condition
	}
	return m.NewCall(iteration, condition)
}
