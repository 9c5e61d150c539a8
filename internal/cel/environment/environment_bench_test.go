package environment

import (
	"strconv"
	"testing"

	"github.com/google/cel-go/cel"
)

const rule = "self.replicas <= self.maxReplicas && names.all(n, n.matches('^[a-z]+$')) && quantity(self.size).isLessThan(quantity('1Gi'))"

func rules(b *testing.B) *cel.Env {
	b.Helper()
	base, err := Base()
	if err != nil {
		b.Fatal(err)
	}
	env, err := base.Extend(
		cel.Variable("self", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("names", cel.ListType(cel.StringType)))
	if err != nil {
		b.Fatal(err)
	}
	return env
}

// BenchmarkBase measures the creation of the base environment, which delays the first expression of a server.
func BenchmarkBase(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newBase(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExtend(b *testing.B) {
	rules(b)
	b.ReportAllocs()
	for b.Loop() {
		rules(b)
	}
}

func BenchmarkCompile(b *testing.B) {
	env := rules(b)
	b.ReportAllocs()
	for b.Loop() {
		compiled, issues := env.Compile(rule)
		if issues.Err() != nil {
			b.Fatal(issues.Err())
		}
		if _, err := env.Program(compiled, ProgramOptions()...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	env := rules(b)
	compiled, issues := env.Compile(rule)
	if issues.Err() != nil {
		b.Fatal(issues.Err())
	}
	program, err := env.Program(compiled, ProgramOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	variables := map[string]any{
		"self":  map[string]any{"replicas": int64(3), "maxReplicas": int64(5), "size": "20Mi"},
		"names": []string{"a", "b", "c"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := program.ContextEval(b.Context(), variables); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoop(b *testing.B) {
	env := rules(b)
	for _, length := range []int{100, 10_000} {
		b.Run(strconv.Itoa(length), func(b *testing.B) {
			compiled, issues := env.Compile("lists.range(" + strconv.Itoa(length) + ").all(n, n >= 0)")
			if issues.Err() != nil {
				b.Fatal(issues.Err())
			}
			program, err := env.Program(compiled, ProgramOptions()...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := program.ContextEval(b.Context(), cel.NoVars()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
