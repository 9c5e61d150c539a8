package library_test

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
)

// example is an expression and its result, which is the value of another expression, or "error: " and a
// message. If costs are given, they are checked: the minimum and maximum estimate, and the actual cost.
type example struct {
	expression string
	want       string
	least      uint64
	most       uint64
	cost       uint64
}

// compileErrors maps expressions that do not compile to their first errors.
type compileErrors map[string]string

func run(t *testing.T, examples []example) {
	t.Helper()
	env := base(t)
	for _, tt := range examples {
		t.Run(tt.expression, func(t *testing.T) {
			t.Parallel()
			expression := compile(t, env, tt.expression)
			got, cost, err := evaluate(t, env, expression)
			if text, ok := strings.CutPrefix(tt.want, "error: "); ok {
				if err == nil || err.Error() != text {
					t.Errorf("got %v and error %v, want error %s", got, err, text)
				}
			} else if err != nil {
				t.Errorf("error %v, want %s", err, tt.want)
			} else {
				want, _, err := evaluate(t, env, compile(t, env, tt.want))
				if err != nil {
					t.Fatal(err)
				}
				if want.Type().TypeName() != got.Type().TypeName() || want.Equal(got) != types.True {
					t.Errorf("got %v (%s), want %v (%s)", got.Value(), got.Type(), want.Value(), want.Type())
				}
			}
			if tt.most == 0 {
				return
			}
			estimate, err := env.EstimateCost(expression, &library.CostEstimator{SizeEstimator: short{}})
			if err != nil {
				t.Fatal(err)
			}
			if want := (checker.CostEstimate{Min: tt.least, Max: tt.most}); estimate != want {
				t.Errorf("estimated cost %v, want %v", estimate, want)
			}
			if cost != tt.cost {
				t.Errorf("cost %d, want %d", cost, tt.cost)
			}
		})
	}
}

// short limits strings and bytes of unknown size.
type short struct{}

func (short) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if k := node.Type().Kind(); k == types.StringKind || k == types.BytesKind {
		return &checker.SizeEstimate{Max: 12}
	}
	return nil
}

func (short) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

func runCompileErrors(t *testing.T, expressions compileErrors) {
	t.Helper()
	env := base(t)
	for expression, want := range expressions {
		_, issues := env.Compile(expression)
		if issues.Err() == nil {
			t.Errorf("%s: no compile error", expression)
		} else if got := issues.Errors()[0].Message; got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

func base(t testing.TB) *cel.Env {
	t.Helper()
	env, err := environment.Base()
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func compile(t *testing.T, env *cel.Env, expression string) *cel.Ast {
	t.Helper()
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("compile %s: %v", expression, issues.Err())
	}
	return compiled
}

// evaluate evaluates an expression without constant folding, so that the cost of constant parts is included.
func evaluate(t *testing.T, env *cel.Env, expression *cel.Ast) (ref.Val, uint64, error) {
	t.Helper()
	program, err := env.Program(expression,
		cel.CostTracking(&library.CostEstimator{}), cel.EvalOptions(cel.OptTrackCost))
	if err != nil {
		return nil, 0, err
	}
	got, details, err := program.Eval(cel.NoVars())
	var cost uint64
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	return got, cost, err
}
