package rules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/cel/typed"
)

// The names of the variables that contain the current and the old value.
const (
	selfName    = "self"
	oldSelfName = "oldSelf"
)

// scope defines the types of the variables of an expression. self and oldSelf have the same type.
type scope struct {
	typ *typed.Type
	// optional is set if oldSelf is an optional value.
	optional bool
}

func scopeOf(t *typed.Type, rule *apiextensions.ValidationRule) scope {
	return scope{t, rule.OptionalOldSelf != nil && *rule.OptionalOldSelf}
}

// environments creates the CEL environments of scopes. It caches only the environments of one type, because
// they are large and the rules of a value are compiled in sequence.
type environments struct {
	typ      *typed.Type
	compiled [2]*cel.Env // with oldSelf, and with an optional oldSelf
}

func (e *environments) of(s scope) (*cel.Env, error) {
	if e.typ != s.typ {
		*e = environments{typ: s.typ}
	}
	which := 0
	if s.optional {
		which = 1
	}
	if have := e.compiled[which]; have != nil {
		return have, nil
	}
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	self := s.typ.CEL()
	old := self
	if s.optional {
		old = types.NewOptionalType(self)
	}
	env, err := base.Extend(cel.CustomTypeProvider(typed.Provider{Provider: base.CELTypeProvider(), Root: s.typ}),
		cel.Variable(selfName, self), cel.Variable(oldSelfName, old))
	if err != nil {
		return nil, fmt.Errorf("declare %s: %w", self, err)
	}
	e.compiled[which] = env
	return env, nil
}

// expression is a compiled expression.
type expression struct {
	program cel.Program
	// usesOldSelf is set for transition rules.
	usesOldSelf bool
	// ast is the checked expression, which is needed to estimate its cost.
	ast *cel.Ast
	err error
}

// use specifies how an expression is used.
type use int

const (
	asRule use = iota
	asMessage
)

// compile compiles an expression. If the compilation fails, err of the result has the message with which
// kube-apiserver rejects the definition.
func (e *environments) compile(key expressionKey) *expression {
	env, err := e.of(key.scope)
	if err != nil {
		return &expression{err: err}
	}
	kind, program := "", "program "
	if key.as == asMessage {
		kind, program = "messageExpression ", "messageExpression "
	}
	ast, _, issues := environment.Compile(env, key.text, nil)
	if issues.Err() != nil {
		return &expression{err: errors.New(kind + "compilation failed: " + issues.String())}
	}
	switch {
	case key.as == asRule && ast.OutputType() != cel.BoolType:
		return &expression{err: errors.New("cel expression must evaluate to a bool")}
	case key.as == asMessage && ast.OutputType() != cel.StringType:
		return &expression{err: errors.New("messageExpression must evaluate to a string")}
	}
	compiled := &expression{ast: ast}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		compiled.usesOldSelf = compiled.usesOldSelf || reference.Name == oldSelfName
	}
	// Create the program in the base environment, which is sufficient for a checked expression. A
	// program retains its environment, and the environment of the scope is large.
	base, err := environment.Base()
	if err == nil {
		compiled.program, err = base.Program(ast, environment.ProgramOptions()...)
	}
	if err != nil {
		compiled.err = fmt.Errorf("%sinstantiation failed: %w", program, err)
	}
	return compiled
}

// cost returns the estimated maximum cost of the expression.
func (e *expression) cost(t *typed.Type) (uint64, error) {
	base, err := environment.Base()
	if err != nil {
		return 0, err
	}
	estimate, err := base.EstimateCost(e.ast, &library.CostEstimator{SizeEstimator: typed.Sizes{Root: t}})
	if err != nil {
		return 0, err
	}
	return estimate.Max, nil
}

// expressions is a cache of compiled expressions. It is safe for concurrent use.
type expressions struct {
	mu struct {
		sync.Mutex
		compiled map[expressionKey]*expression
	}
}

// maxShared is the maximum number of cached expressions. If it is reached, the cache is cleared.
const maxShared = 1000

type expressionKey struct {
	scope
	text string
	as   use
}

// get returns an expression. It compiles the expression if it is not cached.
func (e *expressions) get(key expressionKey, envs *environments) *expression {
	e.mu.Lock()
	defer e.mu.Unlock()
	if have := e.mu.compiled[key]; have != nil {
		return have
	}
	compiled := envs.compile(key)
	compiled.ast = nil // large, and only used by Checker
	if e.mu.compiled == nil || len(e.mu.compiled) == maxShared {
		e.mu.compiled = map[expressionKey]*expression{}
	}
	e.mu.compiled[key] = compiled
	return compiled
}

// compiledRules contains the compiled rules of a node.
type compiledRules struct {
	rules []compiledRule
	// usesOldSelf is set if one of the rules uses oldSelf. optional is set if oldSelf is optional in one of
	// the rules.
	usesOldSelf, optional bool
}

type compiledRule struct {
	rule *expression // nil for an empty rule
	// message is nil if the rule has no message expression. It is compiled at the first failure of the rule,
	// because most rules never fail.
	message func() *expression
}

// compile compiles the rules of a node.
func (e *expressions) compile(n *node) compiledRules {
	var envs environments
	ready := compiledRules{rules: make([]compiledRule, len(n.rules))}
	for i := range n.rules {
		rule, compiled := &n.rules[i], &ready.rules[i]
		if strings.TrimSpace(rule.Rule) == "" {
			continue
		}
		vars := scopeOf(n.typ, rule)
		compiled.rule = e.get(expressionKey{vars, rule.Rule, asRule}, &envs)
		ready.usesOldSelf = ready.usesOldSelf || compiled.rule.usesOldSelf
		ready.optional = ready.optional || vars.optional
		if rule.MessageExpression != "" {
			compiled.message = sync.OnceValue(func() *expression {
				return e.get(expressionKey{vars, rule.MessageExpression, asMessage}, new(environments))
			})
		}
	}
	return ready
}

// result is the result of an evaluation.
type result struct {
	value ref.Val
	cost  uint64
	// counted is set if the cost is known.
	counted bool
	err     error
}

func (e *expression) eval(ctx context.Context, vars *variables) result {
	value, details, err := e.program.ContextEval(ctx, vars)
	r := result{value: value, err: err}
	if details != nil {
		if cost := details.ActualCost(); cost != nil {
			r.cost, r.counted = *cost, true
		}
	}
	return r
}
