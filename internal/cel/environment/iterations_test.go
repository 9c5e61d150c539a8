package environment

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"

	"mainstay.dev/mainstay/internal/cel/library"
)

// unmarked returns the environment without the library iterations, which is the last option.
func unmarked(t testing.TB) *cel.Env {
	t.Helper()
	all := options()
	return withVariables(t, func() (*cel.Env, error) { return cel.NewEnv(all[:len(all)-1]...) })
}

func withVariables(t testing.TB, base func() (*cel.Env, error)) *cel.Env {
	t.Helper()
	env, err := base()
	if err != nil {
		t.Fatal(err)
	}
	env, err = env.Extend(
		cel.Variable("self", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("names", cel.ListType(cel.StringType)),
		cel.Variable("count", cel.IntType))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// outcome formats the estimated and actual cost and the result of an expression.
func outcome(t testing.TB, env *cel.Env, expression string) string {
	t.Helper()
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		return issues.Err().Error()
	}
	estimate, err := env.EstimateCost(compiled, &library.CostEstimator{})
	if err != nil {
		t.Fatalf("estimate: %v", err)
	}
	program, err := env.Program(compiled, ProgramOptions()...)
	if err != nil {
		return err.Error()
	}
	got, details, err := program.ContextEval(t.Context(), map[string]any{
		"self": map[string]any{
			"a": []any{map[string]any{"k": "x", "v": int64(1)}, map[string]any{"k": "y"}, map[string]any{"k": "z", "v": int64(3)}},
			"m": map[string]any{"p": int64(1), "q": "two"},
		},
		"names": []string{"a", "b", "c", "b"},
		"count": int64(3),
	})
	if err != nil {
		return fmt.Sprintf("estimate %v, cost %d, error %v", estimate, *details.ActualCost(), err)
	}
	return fmt.Sprintf("estimate %v, cost %d, value %v", estimate, *details.ActualCost(), got.Type())
}

// same reports whether an expression has the same outcome in both environments in any of several attempts. A
// single attempt is not enough, because the order of maps is random and affects short-circuit evaluation.
func same(t testing.TB, a, b *cel.Env, expression string) (string, string, bool) {
	var got, want string
	for range 100 {
		if got, want = outcome(t, a, expression), outcome(t, b, expression); got == want {
			return got, want, true
		}
	}
	return got, want, false
}

func loops() []string {
	return []string{
		"names.all(n, n != 'c')",
		"names.exists(n, n == 'c') || names.exists_one(n, n == 'a')",
		"names.map(n, n + n).filter(n, n.size() > 1 && n != 'bb').size() + names.map(n, n > 'a', n).size()",
		"names.all(n, names.exists(m, m == n && names.filter(o, o != m).size() > count))",
		"self.a.all(x, x.v > 0)", // an error in the middle
		"self.a.exists(x, x.v > 2) && self.a.all(x, has(x.v) ? x.v > 0 : x.k == 'y')",
		"self.a.map(x, x.?v.orValue(0)).sum() + count",
		"self.m.all(k, self.m[k] == 'two' || self.m[k] > 0)",
		"self.m.transformMap(k, v, k != 'p', v).size() == 1 && self.a.transformList(i, x, i).max() == 2",
		"self.m.exists(k, v, v == 'two') && names.existsOne(i, n, i == 1 && n == 'b')",
		"{1: 2}.transformMapEntry(k, v, {v: k})[2] + names.sortBy(n, n == 'b' ? 'z' : n).indexOf('c')",
		"optional.of(names).optMap(l, l.map(n, n)).value().isSorted() && optional.none().optFlatMap(x, optional.of(x)) == optional.none()",
		"[[1, 2], [3]].map(l, l.map(i, [i].map(j, i + j + count)))[0][1][0]",
		"names.map(n, n.matches('[a-b]') ? [n] : [n, n]).flatten().distinct().all(n, n in names)",
		"[].all(x, x == 1) && [].map(x, x) == []",
		"(names + names).map(n, self.a.filter(x, x.k > n).size() * count).sum()",
	}
}

// TestIterations checks that wrapping loop conditions in a function call does not change results and costs.
func TestIterations(t *testing.T) {
	t.Parallel()
	marked, plain := withVariables(t, Base), unmarked(t)
	for _, expression := range loops() {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			if got, want, ok := same(t, marked, plain, expression); !ok {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestLongLoop checks that the time that a loop takes is proportional to its length.
func TestLongLoop(t *testing.T) {
	t.Parallel()
	// With quadratic time, this would take minutes.
	const want = "estimate {400012 600012}, cost 600012, value bool"
	if got := outcome(t, withVariables(t, Base), "lists.range(100000).all(a, a >= 0)"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzIterations is like TestIterations, but with arbitrary expressions.
func FuzzIterations(f *testing.F) {
	for _, expression := range loops() {
		f.Add(expression)
	}
	marked, plain := withVariables(f, Base), unmarked(f)
	f.Fuzz(func(t *testing.T, expression string) {
		if got, want, ok := same(t, marked, plain, expression); !ok {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
