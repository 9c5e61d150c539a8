package environment

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/library"
)

// pairGuard cancels an evaluation before a call that would exceed the cost limit. Functions on sets compare all
// pairs of elements and cannot be interrupted: with two lists of 100,000 elements, they take a minute, and
// cel-go charges the cost only afterwards. pairGuard computes the cost before the call.
type pairGuard struct {
	bindings map[string]*functions.Overload // by overload ID
}

var _ cel.SingletonLibrary = (*pairGuard)(nil)

// LibraryName implements cel.SingletonLibrary.
func (*pairGuard) LibraryName() string { return "mainstay.products" }

// CompileOptions implements cel.Library. It stores the bindings of the functions in p.bindings. The functions
// must have been declared before.
func (p *pairGuard) CompileOptions() []cel.EnvOption {
	return []cel.EnvOption{func(env *cel.Env) (*cel.Env, error) {
		p.bindings = map[string]*functions.Overload{}
		for _, name := range []string{"distinct", "sets.contains", "sets.equivalent", "sets.intersects"} {
			bindings, err := env.Functions()[name].Bindings()
			if err != nil {
				return nil, fmt.Errorf("bind function %s: %w", name, err)
			}
			for _, b := range bindings {
				p.bindings[b.Operator] = b
			}
		}
		return env, nil
	}}
}

// ProgramOptions implements cel.Library. It wraps calls to the functions that are guarded.
func (p *pairGuard) ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		binding, ok := p.bindings[call.OverloadID()]
		if !ok {
			return i, nil
		}
		return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
			if pairs(args) > PerCallLimit {
				library.CancelEvaluation()
			}
			if binding.Unary != nil {
				return binding.Unary(args[0])
			}
			return binding.Binary(args[0], args[1])
		}), nil
	})}
}

// pairs returns the number of pairs of elements of two lists. If there is only one list, it is paired with
// itself.
func pairs(args []ref.Val) float64 {
	return length(args[0]) * length(args[len(args)-1])
}

// length returns the length of a list, or 1 if v is not a list.
func length(v ref.Val) float64 {
	if list, ok := v.(traits.Lister); ok {
		if n, ok := list.Size().(types.Int); ok {
			return float64(n)
		}
	}
	return 1
}
