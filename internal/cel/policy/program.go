package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"weak"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
)

// Programs caches the programs of policies and webhooks: equal expressions with the same scope
// share one. Unused programs are dropped. The zero value is ready for use. It is safe for
// concurrent use.
type Programs struct {
	mu   sync.Mutex
	env  *cel.Env // with all possible variables
	made map[programKey]weak.Pointer[Program]
	// sweepAt is the number of entries that triggers the removal of unused ones.
	sweepAt int
}

type programKey struct {
	text              string
	sees              Scope
	declared, results string
}

// minSweep avoids frequent sweeps of small caches.
const minSweep = 256

// get returns the program of an expression, and compiles it if necessary.
func (p *Programs) get(key programKey, compile func() (checked, error)) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.made[key].Value(); have != nil {
		return have
	}
	made := p.link(key.text, compile)
	p.sweep()
	p.made[key] = weak.Make(made)
	return made
}

func (p *Programs) sweep() {
	if p.made == nil {
		p.made = map[programKey]weak.Pointer[Program]{}
	}
	if len(p.made) < max(p.sweepAt, minSweep) {
		return
	}
	for key, program := range p.made {
		if program.Value() == nil {
			delete(p.made, key)
		}
	}
	p.sweepAt = 2 * len(p.made)
}

func (p *Programs) link(text string, compile func() (checked, error)) *Program {
	made := &Program{text: text, result: cel.DynType, shares: 1}
	ast, err := compile()
	if err != nil {
		made.err = fmt.Errorf("compilation error: %w", err)
		return made
	}
	made.result, made.shares = ast.OutputType(), ast.shares
	// A checked expression needs no variables: a program of the environment that it was
	// checked in would keep that in memory.
	env, err := p.runtime()
	if err == nil {
		made.program, err = env.Program(ast.Ast, environment.ProgramOptions()...)
	}
	if err != nil {
		made.err = fmt.Errorf("compilation error: instantiation failed: %w", err)
	}
	return made
}

// runtime returns the environment that all programs are of.
func (p *Programs) runtime() (*cel.Env, error) {
	if p.env != nil {
		return p.env, nil
	}
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	p.env, err = base.Extend(library.Authorizer(), library.JSONPatch(),
		cel.CustomTypeProvider(provider{Provider: base.CELTypeProvider(), compiler: new(Compiler), patches: true}))
	return p.env, err
}

// Program is an expression that can be evaluated. It is immutable and safe for concurrent
// use.
type Program struct {
	text    string
	result  *cel.Type
	shares  int // the maximum number of occurrences of a value in its value
	program cel.Program
	err     error // compilation failed
}

// Text is the expression.
func (p *Program) Text() string { return p.text }

// Errors of evaluations.
var (
	// ErrCompile is in the errors of expressions that do not compile.
	ErrCompile = errors.New("the expression does not compile")
	// ErrBudget is wrapped by the error of the last evaluation within the budget.
	ErrBudget = errors.New("the cost budget is exceeded")
)

// failure is an error with kube-apiserver's words, of one of the kinds above, or the error
// of the evaluation.
type failure struct {
	text string
	is   error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.is }

// Budget is the remaining cost of all evaluations.
type Budget int64

// spend subtracts a cost, and reports whether the budget was sufficient.
func (b *Budget) spend(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > int64(*b) {
		*b = 0
		return false
	}
	*b -= Budget(cost)
	return true
}

// Evaluate returns the value of an expression. Its cost, including variables that it uses first, is
// subtracted from the budget. If the budget is insufficient, the error wraps ErrBudget, and no
// further expression should be evaluated.
func (p *Program) Evaluate(ctx context.Context, in *Input, budget *Budget) (ref.Val, error) {
	if p.err != nil {
		return nil, &failure{p.err.Error(), ErrCompile}
	}
	in.ctx = ctx
	value, details, err := p.program.ContextEval(ctx, in)
	if !budget.spend(in.takeCost()) {
		return nil, outOfBudget()
	}
	if details == nil || details.ActualCost() == nil {
		return nil, &failure{fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", p.text), ErrBudget}
	}
	if !budget.spend(*details.ActualCost()) {
		return nil, outOfBudget()
	}
	if err != nil {
		return nil, &failure{fmt.Sprintf("expression '%v' resulted in error: %v", p.text, err), err}
	}
	return value, nil
}

// LineOf returns the line of the expression, from 1, at which an evaluation failed; 0 if unknown.
// It parses the expression, so it is for rejections only.
func (p *Program) LineOf(err error) int {
	var failed *types.Err
	if !errors.As(err, &failed) || failed.NodeID() == 0 {
		return 0
	}
	env, err := environment.Base()
	if err != nil {
		return 0
	}
	ast, issues := env.Parse(p.text)
	if issues.Err() != nil {
		return 0
	}
	line := ast.NativeRep().SourceInfo().GetStartLocation(failed.NodeID()).Line()
	return max(line, 0)
}

func outOfBudget() error {
	return &failure{"validation failed due to running out of cost budget, no further validation rules will be run", ErrBudget}
}
