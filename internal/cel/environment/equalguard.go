package environment

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/library"
)

// equalGuard cancels an evaluation before a comparison that would take seconds. For example, a list that
// contains one large object 100,000 times is cheap to create and has a low comparison cost, but contains
// billions of values.
type equalGuard struct{}

var _ cel.SingletonLibrary = equalGuard{}

// LibraryName implements cel.SingletonLibrary.
func (equalGuard) LibraryName() string { return "mainstay.equality" }

// CompileOptions implements cel.Library. It returns nil, because cel-go declares the operators.
func (equalGuard) CompileOptions() []cel.EnvOption { return nil }

// ProgramOptions implements cel.Library. It wraps the calls of == and !=.
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
	case subtractSize(left, PerCallLimit) <= 0 && subtractSize(right, PerCallLimit) <= 0: // a comparison visits no more values than the smaller operand contains
		library.CancelEvaluation()
	}
	equal := types.Equal(left, right)
	if c.not {
		return types.Bool(equal != types.True)
	}
	return equal
}

// subtractSize returns limit minus the number of values in v. It stops counting when the result is 0 or
// negative.
func subtractSize(v ref.Val, limit int) int {
	switch v.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.String, types.Null:
		return limit - 1
	}
	if _, ok := v.(interface{ Size() ref.Val }); !ok {
		return limit - 1
	}
	return subtractNativeSize(v.Value(), limit)
}

func subtractNativeSize(v any, limit int) int {
	limit--
	if limit <= 0 {
		return limit
	}
	switch v := v.(type) {
	case []ref.Val:
		for i := 0; i < len(v) && limit > 0; i++ {
			limit = subtractSize(v[i], limit)
		}
	case map[ref.Val]ref.Val:
		for _, member := range v {
			if limit = subtractSize(member, limit); limit <= 0 {
				break
			}
		}
	case []any:
		for i := 0; i < len(v) && limit > 0; i++ {
			limit = subtractNativeSize(v[i], limit)
		}
	case map[string]any:
		for _, member := range v {
			if limit = subtractNativeSize(member, limit); limit <= 0 {
				break
			}
		}
	}
	return limit
}
