package environment

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
)

// again returns an expression in which map is applied to start the given number of times.
func again(times int, start, each string) string {
	return start + strings.Repeat(".map(x, "+each+")", times)
}

func nested(times int, open, value, end string) string {
	return strings.Repeat(open, times) + value + strings.Repeat(end, times)
}

// TestCompileRejectsExpensiveExpressions checks that short expressions that are extremely expensive to check or
// compare are rejected. cel-go takes between seconds and years for them.
func TestCompileRejectsExpensiveExpressions(t *testing.T) {
	t.Parallel()
	const rejected, fine = true, false
	env := textVariablesEnv(t)
	for text, want := range map[string]bool{
		again(12, "[0]", "[x, x]") + " == " + again(12, "[0]", "[x, x]"):                              rejected,
		again(12, "any", "[x, x]") + " != " + again(12, "any", "[x, x]"):                              rejected,
		again(30, "[dyn(0)]", "dyn([x, x])") + " == []":                                               rejected,
		again(30, "[[0]]", "{'a': x, 'b': x}") + "[0] in []":                                          rejected,
		again(30, "[list]", "x + x") + ".flatten() == []":                                             rejected,
		again(30, "[list]", "[true ? x : x, x]") + ".size() == 1":                                     rejected,
		again(30, "[any]", "[optional.of(x), optional.of(x)]") + ".size() == 1":                       rejected,
		again(15, "[any]", "[x].map(y, [y, y])[0] + x") + ".map(x, '%s'.format([x])) == []":           rejected,
		"[variables.large].map(x, [x, x, x]).size() == 3":                                             rejected,
		again(30, "[0]", "{x: x}") + ".size() == 1":                                                   rejected,
		nested(200, "[", "any", "]") + ".size() == 1":                                                 rejected,
		nested(200, "{'a': ", "any", "}") + ".size() == 1":                                            rejected,
		nested(200, "optional.of(", "any", ")") + ".hasValue()":                                       rejected,
		strings.Repeat(nested(30, "[", "any", "]")+".size() == 1 && ", 100) + "true":                  rejected,
		"list == ['a'] && [list, list, [list[0]]].all(x, x.map(y, [y, y]).size() > 0)":                fine,
		again(7, "[any]", "[x, x]") + " == [any]":                                                     fine,
		nested(20, "[", "any", "]") + " == []":                                                        fine,
		"[" + strings.Repeat("['a', 'b'],", 1000) + "].all(p, p[0] != long)":                          fine,
		strings.Repeat("'a' + long + ", 100) + "''":                                                   fine,
		strings.Repeat("list.all(x, x != 'a' && ", 20) + "true" + strings.Repeat(")", 20):             fine,
		nested(8, "[{'value': {'a': ", "any", "}}]") + " == []":                                       fine,
		"variables.small == [] || [variables.small, variables.small].exists(x, x == variables.small)": fine,
	} {
		_, _, issues := Compile(env, text, map[string]int{"large": 100, "small": 1})
		err := issues.Err()
		is := err != nil && (strings.Contains(err.Error(), "types of the expression are nested too deeply") || strings.Contains(err.Error(), "contains the same value too many times"))
		if is != want || err != nil && !want {
			t.Errorf("%.80s: %.300v, want %t", text, err, want)
		}
	}
}

func textVariablesEnv(t testing.TB) *cel.Env {
	t.Helper()
	base, err := Base()
	if err != nil {
		t.Fatal(err)
	}
	env, err := base.Extend(cel.Variable("any", cel.DynType), cel.Variable("list", cel.ListType(cel.StringType)), cel.Variable("long", cel.StringType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// TestLargeComparisons checks that an evaluation is canceled if it compares more values than the cost limit
// allows, even if the values are references to the same object.
func TestLargeComparisons(t *testing.T) {
	t.Parallel()
	env := textVariablesEnv(t)
	large := map[string]any{"list": make([]any, 10_000)}
	other := map[string]any{"list": make([]any, 10_000)}
	for i := range 10_000 {
		large["list"].([]any)[i], other["list"].([]any)[i] = "a", "a"
	}
	for text, want := range map[string]string{
		"any == variables.other": "true", "any != variables.other": "false", "[any, any] == [variables.other, any]": "true", "any == 1 || any == [1]": "false", "[any] != [1] && {'a': any} == {'a': any}": "true",
		"lists.range(100000).map(i, any) == lists.range(100000).map(i, variables.other)": "actual cost limit exceeded",
		"lists.range(1000).map(i, {'a': any}) != lists.range(1000).map(i, {'a': any})":   "actual cost limit exceeded",
		"lists.range(1000).map(i, any) == [1]":                                           "false",
		"any.none == any":                                                                "no such key: none",
	} {
		ast, _, issues := Compile(env, text, nil)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast, ProgramOptions()...)
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := program.ContextEval(t.Context(), map[string]any{"any": large, "variables": map[string]any{"other": other}, "long": "", "list": []string{}})
		if got := fmt.Sprint(value, errors.Unwrap(err), err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// BenchmarkRejected measures the rejection of expressions that take cel-go 9 s, 12 s, and years to check or
// compare.
func BenchmarkRejected(b *testing.B) {
	env := textVariablesEnv(b)
	for name, text := range map[string]string{
		"200_brackets": nested(200, "{'a': ", "any", "}") + ".size() == 1", "14_maps": again(14, "[0]", "{x: x}") + ".size() == 1",
		"60_doublings": again(60, "[dyn(0)]", "dyn([x, x])") + " == []",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, issues := Compile(env, text, nil); issues.Err() == nil {
					b.Fatal("not rejected")
				}
			}
		})
	}
}
