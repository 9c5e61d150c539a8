package environment_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
)

// extended returns the base environment with the variables of the tests.
func extended(t testing.TB) *cel.Env {
	t.Helper()
	base, err := environment.Base()
	if err != nil {
		t.Fatal(err)
	}
	env, err := base.Extend(
		cel.Variable("self", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("names", cel.ListType(cel.StringType)),
		cel.Variable("text", cel.StringType),
		cel.Variable("count", cel.IntType),
	)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// values returns the values of the variables.
func values() map[string]any {
	return map[string]any{
		"self":  map[string]any{"name": "a", "replicas": int64(3), "ratio": 0.5, "tags": []any{"x", "y"}, "spec": map[string]any{"on": true}, "rook": "Rook takes 👑", "numbers": []any{int64(1), int64(2), int64(3)}},
		"names": []string{"c", "b", "a"},
		"text":  "1.2.3",
		"count": int64(42),
	}
}

// evaluate compiles and evaluates an expression with the same options as the server.
func evaluate(ctx context.Context, env *cel.Env, expression string) (ref.Val, *cel.EvalDetails, error) {
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, nil, issues.Err()
	}
	program, err := env.Program(compiled, environment.ProgramOptions()...)
	if err != nil {
		return nil, nil, err
	}
	return program.ContextEval(ctx, values())
}

// TestLanguage checks the supported language elements and their results.
func TestLanguage(t *testing.T) {
	t.Parallel()
	env := extended(t)
	for _, expression := range []string{
		// Macros, including those with two variables.
		"has(self.name) && !has(self.other)",
		"names.all(n, n != '') && names.exists(n, n == 'b') && names.exists_one(n, n == 'a')",
		"names.map(n, n + n) == ['cc', 'bb', 'aa'] && names.filter(n, n > 'a') == ['c', 'b']",
		"names.all(i, n, i < 3 && n != '') && {'k': 1}.exists(k, v, k == 'k' && v == 1) && names.existsOne(i, n, n == 'a')",
		"names.transformList(i, n, i) == [0, 1, 2] && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
		"['a'].transformMapEntry(i, n, {n: i}) == {'a': 0}",
		// Numbers of different types can be compared; the time zone is UTC.
		"1 < 1.5 && 2u > 1 && self.ratio < 1",
		"timestamp('2026-11-21T12:00:00Z').getHours() == 12",
		// Optional values.
		"self.?other.orValue('none') == 'none' && self.?spec.?on.hasValue()",
		"names[?9].optMap(n, n.size()).or(optional.of(1)).value() == 1",
		"optional.of('a').optFlatMap(v, optional.none()) == optional.none()",
		"[?self.?other, dyn('x')] == ['x'] && {?'a': self.?name} == {'a': 'a'}",
		// Strings, sets, lists.
		"'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'a%sc'.format(['b']) == 'abc' && strings.quote('a') == '\"a\"'",
		"'tacocat'.charAt(3) == 'o' && ' a '.trim() == 'a' && 'abc'.indexOf('c') == 2 && 'aBc'.lowerAscii() == 'abc'",
		"sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1]) && !sets.intersects([1], [2])",
		"[1, 2, 3].slice(1, 2) == [2] && [[1], [2]].flatten() == [1, 2] && [2, 1].sort() == [1, 2] && lists.range(2) == [0, 1]",
		"[1, 1].distinct() == [1] && [1, 2].reverse() == [2, 1] && names.sortBy(n, n) == ['a', 'b', 'c']",
		// The libraries of Kubernetes.
		"names.isSorted() == false && names.max() == 'c' && [1, 2].sum() == 3 && names.indexOf('b') == 1",
		"text.find('[0-9]') == '1' && text.findAll('[0-9]', 2) == ['1', '2']",
		"isURL('https://a/b') && url('https://a:1/b').getPort() == '1'",
		"ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.2.3') && string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'",
		"quantity('1Gi').isGreaterThan(quantity('1G')) && semver(text).minor() == 2",
		"!format.dns1123Label().validate(text + '!').value().isSorted() || true",
		"format.named('uuid').value().validate('x').value() == ['does not match the UUID format']",
		// Names that are not identifiers.
		"self.`name` == 'a' && !has(self.`x-y/z`)",
		// Types are values.
		"type(text) == string && type(count) == int && type(self) == map && type(ip('::')) == net.IP",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got, _, err := evaluate(t.Context(), env, expression)
			if err != nil {
				t.Fatal(err)
			}
			if got != types.True {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestCompileErrors checks that invalid expressions have kube-apiserver's error messages.
func TestCompileErrors(t *testing.T) {
	t.Parallel()
	env := extended(t)
	const expecting = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
	for expression, want := range map[string]string{
		"x":           "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | ^",
		"Bad Value!":  "ERROR: <input>:1:5: Syntax error: mismatched input 'Value' expecting <EOF>\n | Bad Value!\n | ....^",
		"self == ":    "ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' " + expecting + "\n | self == \n | ........^",
		"count < 9x":  "ERROR: <input>:1:10: Syntax error: extraneous input 'x' expecting <EOF>\n | count < 9x\n | .........^",
		"text.x":      "ERROR: <input>:1:5: type 'string' does not support field selection\n | text.x\n | ....^",
		"count > 'x'": "ERROR: <input>:1:7: found no matching overload for '_>_' applied to '(int, string)'\n | count > 'x'\n | ......^",
		"object.+": "ERROR: <input>:1:8: Syntax error: no viable alternative at input '.+'\n | object.+\n | .......^\n" +
			"ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' " + expecting + "\n | object.+\n | ........^",
		// Not part of the environment.
		"cel.bind(x, 1, 2)": "ERROR: <input>:1:1: undeclared reference to 'cel' (in container '')\n | cel.bind(x, 1, 2)\n | ^\n" +
			"ERROR: <input>:1:9: undeclared reference to 'bind' (in container '')\n | cel.bind(x, 1, 2)\n | ........^\n" +
			"ERROR: <input>:1:10: undeclared reference to 'x' (in container '')\n | cel.bind(x, 1, 2)\n | .........^",
		"math.greatest(1, 2)":      "ERROR: <input>:1:1: undeclared reference to 'math' (in container '')\n | math.greatest(1, 2)\n | ^\nERROR: <input>:1:14: undeclared reference to 'greatest' (in container '')\n | math.greatest(1, 2)\n | .............^",
		"'a'.reverse()":            "ERROR: <input>:1:12: found no matching overload for 'reverse' applied to 'string.()'\n | 'a'.reverse()\n | ...........^",
		"[1, 'a']":                 "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^",
		"duration('1x') == self.d": "ERROR: <input>:1:10: invalid duration argument\n | duration('1x') == self.d\n | .........^",
		"timestamp('x') == self.d": "ERROR: <input>:1:11: invalid timestamp argument\n | timestamp('x') == self.d\n | ..........^",
		"text.matches('(')":        "ERROR: <input>:1:14: invalid matches argument\n | text.matches('(')\n | .............^",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			_, issues := env.Compile(expression)
			if got := issues.String(); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestEvaluationErrors checks that failed evaluations have kube-apiserver's error messages.
func TestEvaluationErrors(t *testing.T) {
	t.Parallel()
	env := extended(t)
	for expression, want := range map[string]string{
		"self.nope.x == 1":                               "no such key: nope",
		"names[5] == ''":                                 "index out of bounds: 5",
		"count / 0 == 1":                                 "division by zero",
		"int(text) == 1":                                 `type conversion error from 'string' to 'int'`,
		"optional.none().value() == 1":                   "optional.none() dereference",
		"self.replicas.startsWith('x')":                  "no such overload",
		"semver(self.name) == semver('1.0.0')":           "No Major.Minor.Patch elements found",
		"text.find('(') == ''":                           "error parsing regexp: missing closing ): `(`",
		"lists.range(count * 100000).size() == 0":        "lists.range: size 4200000 exceeds maximum allowed (1000000)",
		"[1, 2].map(i, lists.range(600000)).size() == 2": "operation cancelled: actual cost limit exceeded",
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got, _, err := evaluate(t.Context(), env, expression)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v and error %v, want %s", got, err, want)
			}
		})
	}
}

// TestInterrupt checks that an evaluation stops when its context is canceled.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := evaluate(ctx, extended(t), "lists.range(1000).all(a, a >= 0)")
	if err == nil || !strings.HasPrefix(err.Error(), "operation interrupted") {
		t.Errorf("error %v, want the error of an interrupted operation", err)
	}
}

// TestCosts checks estimated and actual costs with the server's options. Constant lists and maps are created in
// advance, once, and therefore add nothing to the actual cost.
func TestCosts(t *testing.T) {
	t.Parallel()
	env := extended(t)
	tests := []struct {
		expression        string
		least, most, cost uint64
	}{
		{"has(self.name)", 1, 1, 1}, // the test is free, self is not
		{"count > 1", 2, 2, 2},
		{"{'a': 1, 'b': 2}.all(k, v, v > 0)", 37, 41, 11},
		{"{'a': 1, 'b': 2}.exists(k, v, v > 0)", 39, 43, 10},
		{"{'a': 1, 'b': 2}.existsOne(k, v, v > 0)", 38, 40, 10},
		{"{'a': 1, 'b': 2}.transformMap(k, v, v + 1)", 71, 71, 11},
		{"{'a': 1, 'b': 2}.transformMap(k, v, v < 5, v + 1)", 67, 75, 15},
		{"{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})", 131, 131, 71},
		{"[1, 2].all(i, v, v > 0)", 17, 21, 11},
		{"[1, 2].transformList(i, v, v + 1)", 49, 49, 29},
		{"sets.contains([1, 2, 3, 4], [2, 3])", 29, 29, 9},
		{"sets.equivalent([1, 2], [2, 1])", 29, 29, 9},
		{"count in [1, 2]", 13, 13, 1},
		{"double(5) < 10.0", 2, 2, 1},
	}
	for _, tt := range tests {
		t.Run(tt.expression, func(t *testing.T) {
			t.Parallel()
			compiled, issues := env.Compile(tt.expression)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			estimate, err := env.EstimateCost(compiled, &library.CostEstimator{})
			if err != nil {
				t.Fatal(err)
			}
			if estimate.Min != tt.least || estimate.Max != tt.most {
				t.Errorf("estimate %v, want %d..%d", estimate, tt.least, tt.most)
			}
			_, details, err := evaluate(t.Context(), env, tt.expression)
			if err != nil {
				t.Fatal(err)
			}
			if got := *details.ActualCost(); got != tt.cost {
				t.Errorf("cost %d, want %d", got, tt.cost)
			}
		})
	}
}

// TestActualCosts checks the actual costs of expressions that use the fields of an object. Their estimates
// would depend on a schema.
func TestActualCosts(t *testing.T) {
	t.Parallel()
	env := extended(t)
	for expression, want := range map[string]uint64{
		"self.rook.startsWith('Rook')":                      3,
		"!self.rook.startsWith('knight')":                   4,
		"self.rook.matches('^[^0-9]*$')":                    8,
		"!self.rook.matches('^[0-9]*$')":                    7,
		"type(self.rook) == string":                         4,
		"size(self.rook) == 12":                             4,
		"self.rook.charAt(3) == 'k'":                        4,
		"self.rook.indexOf('o') == 1":                       4,
		"self.rook.replace(' ', 'x') == 'Rookxtakesx👑'":     7,
		"self.rook.split(' ') == ['Rook', 'takes', '👑']":    6,
		"self.rook.substring(5) == 'takes 👑'":               5,
		"self.rook.substring(4, 10).trim() == 'takes'":      6,
		"self.rook.upperAscii() == 'ROOK TAKES 👑'":          6,
		"'a' in names":                                      4,
		"self.numbers + self.numbers == [1, 2, 3, 1, 2, 3]": 6,
		"self.numbers + [4, 5] == [1, 2, 3, 4, 5]":          4,
		"self.numbers.sum() == 6":                           6,
		"'on' in self.spec":                                 3,
		"!has(self.spec.off)":                               3,
		"self.?spec.?on.orValue(false)":                     3,
		"optional.of('a').or(optional.of('a')).hasValue()":  2,
		"optional.ofNonZeroValue(1).hasValue()":             2,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got, details, err := evaluate(t.Context(), env, expression)
			if err != nil {
				t.Fatal(err)
			}
			if got != types.True {
				t.Errorf("got %v", got)
			}
			if cost := *details.ActualCost(); cost != want {
				t.Errorf("cost %d, want %d", cost, want)
			}
		})
	}
}

// TestConcurrent checks concurrent compilation and evaluation with one environment.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			env := extended(t)
			for _, expression := range []string{"names.isSorted()", "quantity('1').add(count) == quantity('43')", "text.find('1' + text) == ''", "format.uuid() == format.named('uuid').value()"} {
				if _, _, err := evaluate(t.Context(), env, expression); err != nil {
					t.Errorf("evaluate %s: %v", expression, err)
				}
			}
		})
	}
	group.Wait()
}

// FuzzExpression checks that every expression is either rejected or evaluated within the cost limit.
func FuzzExpression(f *testing.F) {
	for _, expression := range []string{
		"self.name == 'a'", "names.all(n, n.matches('^[a-z]+$'))", "[1, 2].sum() + count", "text.findAll('[0-9]', count)",
		"url(text).getQuery()", "cidr(text + '/8').containsCIDR(text)", "quantity(text).add(quantity('1e3')).sub(1)", "ip(text) == ip.isCanonical(text)",
		"semver(text, true).compareTo(semver('v1', true))", "format.named(text).value().validate(text)", "'%d %s'.format([count, names])",
		"lists.range(100).map(x, lists.range(x)).flatten().distinct().sort()", "names.transformMap(i, n, n)", "self.?a[?0].optMap(x, x)",
		"text.replace('', text, -1).split('.', -1).join(text)", "[[1], [dyn('a')]].lastIndexOf([1])", "{'a': 1}.min()", "duration('1h') + timestamp('2026-01-01T00:00:00Z')",
	} {
		f.Add(expression)
	}
	env := extended(f)
	f.Fuzz(func(t *testing.T, expression string) {
		compiled, issues := env.Compile(expression)
		if issues.Err() != nil {
			return
		}
		if _, err := env.EstimateCost(compiled, &library.CostEstimator{}); err != nil {
			t.Fatalf("estimate: %v", err)
		}
		program, err := env.Program(compiled, environment.ProgramOptions()...)
		if err != nil {
			return
		}
		_, details, err := program.ContextEval(t.Context(), values())
		if err == nil && *details.ActualCost() > environment.PerCallLimit {
			t.Errorf("cost %d, over the limit", *details.ActualCost())
		}
	})
}
