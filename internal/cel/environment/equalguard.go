package environment

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/library"
)

// equalGuard ends evaluations before comparisons that take seconds. A list of one large
// object, 100,000 times, costs little to make and to compare, and has billions of values.
type equalGuard struct{}

var _ cel.SingletonLibrary = equalGuard{}

// LibraryName implements cel.SingletonLibrary.
func (equalGuard) LibraryName() string { return "mainstay.equality" }

// CompileOptions returns nil: cel-go declares the operators.
func (equalGuard) CompileOptions() []cel.EnvOption { return nil }

// ProgramOptions decorates the operators.
func (equalGuard) ProgramOptions() []cel.ProgramOption {
	return []cel.ProgramOption{cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		switch call.Function() {
		case operators.Equals, operators.NotEquals:
			args := call.Args()
			return comparison{call, args[0], args[1], call.Function() == operators.NotEquals}, nil
		}
		return i, nil
	})}
}

// comparison is a call of == or !=.
type comparison struct {
	interpreter.InterpretableCall
	left, right interpreter.InterpretableV2
	not         bool
}

// Eval implements interpreter.Interpretable.
func (c comparison) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (c comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left, right := c.left.Exec(frame), c.right.Exec(frame)
	switch {
	case types.IsUnknownOrError(left):
		return left
	case types.IsUnknownOrError(right):
		return right
	case weigh(left, PerCallLimit) <= 0 && weigh(right, PerCallLimit) <= 0: // as long as one lasts, so does the comparison
		library.Exceed()
	}
	equal := types.Equal(left, right)
	if c.not {
		return types.Bool(equal != types.True)
	}
	return equal
}

// weigh subtracts the number of values in a value from a limit, and stops at zero.
func weigh(v ref.Val, limit int) int {
	switch v.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String, types.Null:
		return limit - 1
	}
	if _, ok := v.(interface{ Size() ref.Val }); !ok {
		return limit - 1
	}
	return weighNative(v.Value(), limit)
}

func weighNative(v any, limit int) int {
	limit--
	if limit <= 0 {
		return limit
	}
	switch v := v.(type) {
	case []ref.Val:
		for i := 0; i < len(v) && limit > 0; i++ {
			limit = weigh(v[i], limit)
		}
	case map[ref.Val]ref.Val:
		for _, member := range v {
			if limit = weigh(member, limit); limit <= 0 {
				break
			}
		}
	case []any:
		for i := 0; i < len(v) && limit > 0; i++ {
			limit = weighNative(v[i], limit)
		}
	case map[string]any:
		for _, member := range v {
			if limit = weighNative(member, limit); limit <= 0 {
				break
			}
		}
	}
	return limit
}
