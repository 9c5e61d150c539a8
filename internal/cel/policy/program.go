package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/cel/weakmap"
)

// Programs caches the programs of policies and webhooks. Equal expressions with the same scope and the same
// declared variables share a program. The cache refers to programs with weak pointers, so that unused programs
// are garbage-collected. The zero value is ready for use. It is safe for concurrent use.
type Programs struct {
	mu       sync.Mutex
	env      *cel.Env // with all libraries
	programs weakmap.Map[programKey, Program]
}

type programKey struct {
	text              string
	scope             Scope
	declared, results string
}

// get returns the program of an expression. It compiles the expression if the program is not cached.
func (p *Programs) get(key programKey, compile func() (checkedExpression, error)) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.programs.Get(key); have != nil {
		return have
	}
	made := p.newProgram(key.text, compile)
	p.programs.Set(key, made)
	return made
}

func (p *Programs) newProgram(text string, compile func() (checkedExpression, error)) *Program {
	made := &Program{text: text, result: cel.DynType, shares: 1}
	ast, err := compile()
	if err != nil {
		made.err = fmt.Errorf("compilation error: %w", err)
		return made
	}
	made.result, made.shares = ast.OutputType(), ast.shares
	// A program retains its environment. A checked expression no longer needs the variables, so the program is
	// created in an environment without them, which all programs share.
	env, err := p.runtimeEnv()
	if err == nil {
		made.program, err = env.Program(ast.Ast, environment.ProgramOptions()...)
	}
	if err != nil {
		made.err = fmt.Errorf("compilation error: instantiation failed: %w", err)
	}
	return made
}

// runtimeEnv returns the environment that all programs share.
func (p *Programs) runtimeEnv() (*cel.Env, error) {
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

// Program is a compiled expression, or a compilation error. It is immutable and safe for concurrent use.
type Program struct {
	text    string
	result  *cel.Type
	shares  int // from environment.Compile
	program cel.Program
	err     error // compile error
}

// Text returns the source text of the expression.
func (p *Program) Text() string { return p.text }

// The errors of Program.Evaluate may wrap these errors.
var (
	// ErrCompile reports that the expression is invalid.
	ErrCompile = errors.New("the expression does not compile")
	// ErrBudget reports that the cost budget was exceeded, or that the cost could not be determined. The caller
	// must not evaluate other expressions with the same budget.
	ErrBudget = errors.New("the cost budget is exceeded")
)

// evaluationError has kube-apiserver's message. It wraps ErrCompile, ErrBudget, or the error of the evaluation.
type evaluationError struct {
	text string
	is   error
}

func (f *evaluationError) Error() string { return f.text }
func (f *evaluationError) Unwrap() error { return f.is }

// Budget is the remaining cost of a group of evaluations, in CEL cost units. It is not safe for
// concurrent use.
type Budget int64

// spend subtracts a cost from the budget, and reports whether the budget was sufficient. If not, the budget
// becomes 0.
func (b *Budget) spend(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > int64(*b) {
		*b = 0
		return false
	}
	*b -= Budget(cost)
	return true
}

// Evaluate returns the value of an expression. It subtracts the cost from the budget, including the cost of
// variables that are evaluated for the first time. If the expression is invalid, the error wraps ErrCompile. If
// the budget is exceeded, it wraps ErrBudget. Otherwise, it wraps the error of the evaluation. Evaluate must
// not be called concurrently with the same Input.
func (p *Program) Evaluate(ctx context.Context, in *Input, budget *Budget) (ref.Val, error) {
	if p.err != nil {
		return nil, &evaluationError{p.err.Error(), ErrCompile}
	}
	in.ctx = ctx
	value, details, err := p.program.ContextEval(ctx, in)
	if !budget.spend(in.takeCost()) {
		return nil, budgetError()
	}
	if details == nil || details.ActualCost() == nil {
		return nil, &evaluationError{fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", p.text), ErrBudget}
	}
	if !budget.spend(*details.ActualCost()) {
		return nil, budgetError()
	}
	if err != nil {
		return nil, &evaluationError{fmt.Sprintf("expression '%v' resulted in error: %v", p.text, err), err}
	}
	return value, nil
}

// LineOf returns the line of the expression, starting at 1, at which an evaluation failed with err. It returns
// 0 if the line is unknown. LineOf is slow, because it parses the expression again.
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

func budgetError() error {
	return &evaluationError{"validation failed due to running out of cost budget, no further validation rules will be run", ErrBudget}
}
