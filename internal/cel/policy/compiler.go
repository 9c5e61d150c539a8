package policy

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"mainstay.dev/mainstay/internal/cel/environment"
	"mainstay.dev/mainstay/internal/cel/library"
	"mainstay.dev/mainstay/internal/cel/typed"
)

// Scope contains the variables of an expression, in addition to object, oldObject, request and
// namespaceObject.
type Scope struct {
	// Params: the object that a binding brings.
	Params bool
	// Authorizer enables authorization checks.
	Authorizer bool
	// Patches: the types that a mutation is made of.
	Patches bool
}

// Compiler checks the expressions of one policy or webhook, and makes programs of them.
// The zero value is ready for use. It is not safe for concurrent use.
type Compiler struct {
	// Variables enables the previously declared variables.
	Variables bool
	// Object and Params are the types of object, oldObject and params; nil disables type checking.
	// Programs are compiled without them.
	Object, Params *typed.Type
	// Programs shares programs between policies. It is not needed to check.
	Programs *Programs

	declared map[string]*cel.Type
	// shares is how many times variables hold the same value (environment.Compile).
	shares map[string]int
	// signature contains the names and types of declared variables, in order.
	signature string
	made      map[Scope]*cel.Env // they are large, and few of a policy
}

// Check returns the error of an expression, or nil. It must have one of the result types; without
// types, any type is valid.
func (c *Compiler) Check(text string, sees Scope, results ...*cel.Type) error {
	_, err := c.compile(text, sees, results)
	return err
}

// Declare checks the expression of a variable, which later expressions see, even where
// something is wrong with it.
func (c *Compiler) Declare(name, text string, sees Scope) error {
	made, err := c.compile(text, sees, nil)
	if err != nil {
		c.declare(name, cel.DynType, 1)
		return err
	}
	c.declare(name, made.OutputType(), made.shares)
	return nil
}

func (c *Compiler) declare(name string, result *cel.Type, shares int) {
	if c.declared == nil {
		c.declared, c.shares = map[string]*cel.Type{}, map[string]int{}
	}
	t := variableType(result)
	c.declared[name], c.shares[name] = t, shares
	c.signature += fmt.Sprintf("%s %s %d\n", name, t, shares)
}

// Program returns the program of a checked expression; errors are reported by its evaluation.
func (c *Compiler) Program(text string, sees Scope, results ...*cel.Type) *Program {
	return c.Programs.get(programKey{text: text, sees: sees, declared: c.signature, results: fmt.Sprint(results)}, func() (checked, error) {
		return c.compile(text, sees, results)
	})
}

// Variable returns the program of a variable, and declares it.
func (c *Compiler) Variable(name, text string, sees Scope) Variable {
	p := c.Program(text, sees)
	c.declare(name, p.result, p.shares)
	return Variable{Name: name, Program: p}
}

// checked is a checked expression.
type checked struct {
	*cel.Ast
	shares int
}

func (c *Compiler) compile(text string, sees Scope, results []*cel.Type) (checked, error) {
	env, err := c.env(sees)
	if err != nil {
		return checked{}, fmt.Errorf("unexpected error loading CEL environment: %w", err)
	}
	ast, shares, issues := environment.Compile(env, text, c.shares)
	if issues.Err() != nil {
		return checked{}, errors.New("compilation failed: " + issues.String())
	}
	result := ast.OutputType()
	for _, allowed := range results {
		if result.IsExactType(allowed) {
			return checked{ast, shares}, nil
		}
	}
	switch len(results) {
	case 0:
		return checked{ast, shares}, nil
	case 1:
		return checked{}, fmt.Errorf("must evaluate to %v but got %v", results[0], result)
	}
	return checked{}, fmt.Errorf("must evaluate to one of %v but got %v", results, result)
}

func (c *Compiler) env(sees Scope) (*cel.Env, error) {
	if have := c.made[sees]; have != nil {
		return have, nil
	}
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	env, err := base.Extend(c.options(base, sees)...)
	if err != nil {
		return nil, err
	}
	if c.made == nil {
		c.made = map[Scope]*cel.Env{}
	}
	c.made[sees] = env
	return env, nil
}

func (c *Compiler) options(base *cel.Env, sees Scope) []cel.EnvOption {
	options := []cel.EnvOption{
		library.Authorizer(),
		cel.CustomTypeProvider(provider{Provider: c.types(base), compiler: c, patches: sees.Patches}),
		cel.Variable(objectVariable, typeOf(c.Object)),
		cel.Variable(oldObjectVariable, typeOf(c.Object)),
		cel.Variable(namespaceVariable, cel.ObjectType(namespaceName)),
		cel.Variable(requestVariable, cel.ObjectType(requestName)),
	}
	if c.Variables {
		options = append(options, cel.Variable(variablesVariable, cel.ObjectType(variablesName)))
	}
	if sees.Params {
		options = append(options, cel.Variable(paramsVariable, typeOf(c.Params)))
	}
	if sees.Authorizer {
		options = append(options,
			cel.Variable(authorizerVariable, library.AuthorizerType()), cel.Variable(requestResourceVariable, library.ResourceCheckType()))
	}
	if sees.Patches {
		options = append(options, library.JSONPatch())
	}
	return options
}

// types returns the provider of object and parameter types.
func (c *Compiler) types(base *cel.Env) types.Provider {
	resolves := base.CELTypeProvider()
	for _, t := range [...]*typed.Type{c.Object, c.Params} {
		if t != nil {
			resolves = typed.Provider{Provider: resolves, Root: t}
		}
	}
	return resolves
}

func typeOf(t *typed.Type) *cel.Type {
	if t == nil {
		return cel.DynType
	}
	return t.CEL()
}

// variableType returns the visible type of a variable: object types become dynamic.
func variableType(t *cel.Type) *cel.Type {
	switch t.Kind() {
	case cel.BoolKind, cel.BytesKind, cel.DoubleKind, cel.DurationKind, cel.IntKind, cel.NullTypeKind, cel.StringKind,
		cel.TimestampKind, cel.UintKind:
		return t
	case cel.ListKind:
		return cel.ListType(variableType(t.Parameters()[0]))
	case cel.MapKind:
		return cel.MapType(variableType(t.Parameters()[0]), variableType(t.Parameters()[1]))
	}
	return cel.DynType
}
