package environment

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"
)

// TestStringGuard checks that replace and join return the same results as in cel-go if the result does not
// exceed the size limit.
func TestStringGuard(t *testing.T) {
	t.Parallel()
	all := options() // this package defines the last four options
	bounded := textVariables(t, Base)
	plain := textVariables(t, func() (*cel.Env, error) { return cel.NewEnv(all[:len(all)-4]...) })
	variables := map[string]any{
		"long":  strings.Repeat("ab", 500_000),
		"list":  []string{"a", "", "c"},
		"other": []any{"a", int64(1)},
		"any":   int64(1),
	}
	for _, expression := range []string{
		"'abc'.replace('', '-')", "'abcabc'.replace('b', 'xyz')", "'abc'.replace('c', '')", "''.replace('', 'x')", "''.replace('a', 'x')",
		"'aaaa'.replace('a', 'b', 2)", "'aaaa'.replace('a', 'b', 0)", "'aaaa'.replace('a', 'b', -1)", "'é👑é'.replace('', '.', 2)", "'aaa'.replace('aa', 'b')",
		"list.join()", "list.join('-')", "[].join('-')", "['x'].join('-')", "'a'.split('').join('')",
		"other.join(',')", "any.join(',')", "any.replace('a', 'b')", "'a'.replace(any, 'b')", "'a'.replace('a', 'b', any)", "['a'].join(any)",
		"long.replace('a', 'ccc').size()", "[long, long].join(long).size()",
	} {
		got, want := textOf(t, bounded, expression, variables), textOf(t, plain, expression, variables)
		if got != want {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
	for _, expression := range []string{
		"long.replace('', long).size() > 0",
		"long.replace('a', 'bcdefghijklmnopqrstuvwxyz', 999999).size() > 0",
		"lists.range(1000).map(i, long).join().size() > 0",
		"['a', 'b'].map(i, long).join(long.replace('a', 'abcdefgh').replace('h', 'hh') + long + long + long + long).size() > 0",
	} {
		program := programOf(t, bounded, expression)
		_, _, err := program.Eval(variables)
		var cancelled interpreter.EvalCancelledError
		if !errors.As(err, &cancelled) || cancelled.Cause != interpreter.CostLimitExceeded {
			t.Errorf("%s: error %v, want that the limit was exceeded", expression, err)
		}
	}
}

func textVariables(t *testing.T, base func() (*cel.Env, error)) *cel.Env {
	t.Helper()
	env, err := base()
	if err != nil {
		t.Fatal(err)
	}
	env, err = env.Extend(
		cel.Variable("long", cel.StringType),
		cel.Variable("list", cel.ListType(cel.StringType)),
		cel.Variable("other", cel.DynType),
		cel.Variable("any", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func programOf(t *testing.T, env *cel.Env, expression string) cel.Program {
	t.Helper()
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(compiled, ProgramOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func textOf(t *testing.T, env *cel.Env, expression string, variables map[string]any) string {
	t.Helper()
	got, _, err := programOf(t, env, expression).Eval(variables)
	if err != nil {
		return "error " + err.Error()
	}
	return fmt.Sprint(got.Value())
}

// TestMatching checks that constant and computed patterns have the same results, and that slow matches end with
// the error for an exceeded cost limit.
func TestMatching(t *testing.T) {
	t.Parallel()
	env := textVariables(t, Base)
	const tooMuch = "error operation cancelled: actual cost limit exceeded"
	const costly = `'^([a-z]{1,1000}|[a-y]{1,1000}-)*$'`
	for expression, want := range map[string]string{
		`'abc'.matches('^[a-c]+$')`:            "true",
		`matches('abc', 'd')`:                  "false",
		`'abc'.matches(other)`:                 "true",
		`other.matches('[' + any[0] + ']')`:    "true",
		`'abc'.matches(any[0] + '[')`:          "error error parsing regexp: missing closing ]: `[`",
		`any[1].matches("a") && any.size()==2`: "true",
		`any.matches('a')`:                     "error no such overload",
		`long.matches(` + costly + `)`:         tooMuch,
		`long.find(` + costly + `) == ''`:      tooMuch,
		`long.findAll('.*x|.').size() < 3`:     tooMuch,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			if want == tooMuch && testing.Short() {
				t.Skip("takes as long as the time limit")
			}
			got := textOf(t, env, expression, map[string]any{"long": strings.Repeat("b", 300_000), "list": []string{}, "other": "b", "any": []any{"b", "a"}})
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}
