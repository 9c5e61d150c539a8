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

// Programs has the programs of the expressions that policies and webhooks use, each once:
// expressions that are equal, and see the same, share one. It forgets a program that
// nobody holds any more. The zero value is ready for use. It is safe for concurrent use.
type Programs struct {
	mu   sync.Mutex
	env  *cel.Env // has what any of them may use
	made map[programKey]weak.Pointer[Program]
	// sweepAt is how many there may be before those are looked for that are gone.
	sweepAt int
}

type programKey struct {
	text              string
	sees              Scope
	declared, results string
}

// minSweep keeps few programs from being looked through often.
const minSweep = 256

// get returns the program of an expression, compiled if there is none.
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
	shares  int // how many times its value holds the same value
	program cel.Program
	err     error // compilation failed
}

// Text is the expression.
func (p *Program) Text() string { return p.text }

// Errors of evaluations.
var (
	// ErrCompile is in the errors of expressions that do not compile.
	ErrCompile = errors.New("the expression does not compile")
	// ErrBudget is in the error of the evaluation after which nothing more is evaluated.
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

// Budget is what evaluations may still cost together.
type Budget int64

// spend takes off a cost, and reports whether there was enough left.
func (b *Budget) spend(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > int64(*b) {
		*b = 0
		return false
	}
	*b -= Budget(cost)
	return true
}

// Evaluate returns the value of an expression. What it costs, with the variables that it is
// the first to use, is taken off the budget; where that is not enough, the error is an
// ErrBudget, and nothing more should be evaluated.
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

// LineOf returns the line of the expression at which an evaluation has failed, from 1 on; 0
// where that is not known. It parses the expression: it is for answers that refuse.
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
