package environment

import (
	"testing"

	"github.com/google/cel-go/cel"
)

// TestPairGuard checks that the functions that compare all pairs return the same results as in cel-go, and that
// they are not called if there are too many pairs.
func TestPairGuard(t *testing.T) {
	t.Parallel()
	all := options()
	bounded := textVariables(t, Base)
	plain := textVariables(t, func() (*cel.Env, error) { return cel.NewEnv(all[:len(all)-4]...) })
	variables := map[string]any{
		"long": "", "list": []string{"a", "b", "a"},
		"other": []any{"a", int64(1), 1.0, []any{"a"}, []any{"a"}},
		"any":   int64(1),
	}
	for _, expression := range []string{
		"list.distinct().size()", "[].distinct().size()", "other.distinct().size()", "any.distinct()",
		"sets.contains(list, ['a'])", "sets.equivalent(list, ['b', 'a'])", "sets.intersects(list, ['c'])",
		"sets.contains(any, other)", "sets.contains(other, any)", "sets.intersects(other, [[dyn('a')]])",
		"lists.range(900).distinct().size() + 0", "sets.contains(lists.range(900), lists.range(900))",
		"lists.range(1001).distinct().size()", "sets.intersects(lists.range(1001), lists.range(1001))",
	} {
		got, want := textOf(t, bounded, expression, variables), textOf(t, plain, expression, variables)
		if got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
	// Without the guard, this would take hours.
	const expression = "sets.contains(lists.range(400000), lists.range(400000).map(i, -i)) || lists.range(400000).distinct() == []"
	if got := textOf(t, bounded, expression, variables); got != "error operation cancelled: actual cost limit exceeded" {
		t.Errorf("evaluate %s: %s, want the error of the cost limit", expression, got)
	}
}
