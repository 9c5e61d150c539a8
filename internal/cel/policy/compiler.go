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

// Scope selects the variables that an expression can use, in addition to object, oldObject, request and
// namespaceObject.
type Scope struct {
	// Params enables the variable params, which is the parameter object of a policy binding.
	Params bool
	// Authorizer enables the variable authorizer and its functions.
	Authorizer bool
	// Patches enables the types and functions for mutations, such as Object and JSONPatch.
	Patches bool
}

// Compiler checks the expressions of one policy or webhook, and compiles them to programs. The zero value is
// ready for use. It is not safe for concurrent use.
type Compiler struct {
	// Variables enables the variable "variables", which contains the variables that have been declared so far.
	Variables bool
	// Object is the type of object and oldObject, and Params is the type of params; nil disables type checking
	// for the variable. Only Check and Declare need these types: programs are compiled without them.
	Object, Params *typed.Type
	// Programs is the cache of programs, which several policies can share. Program, Variable and Conditions
	// require it.
	Programs *Programs

	declared map[string]*cel.Type
	// shares contains, for each variable, the maximum number of times that its value contains the same value.
	// environment.Compile returns it.
	shares map[string]int
	// signature contains the names and types of the declared variables, in order.
	signature string
	envs      map[Scope]*cel.Env // cached, because an environment is large
}

// Check returns the compile error of an expression, or nil. If results is not empty, the result of the
// expression must have one of these types.
func (c *Compiler) Check(text string, scope Scope, results ...*cel.Type) error {
	_, err := c.compile(text, scope, results)
	return err
}

// Declare checks the expression of a variable, and declares the variable for later expressions. If the
// expression is invalid, Declare returns the error and declares the variable with the dynamic type.
func (c *Compiler) Declare(name, text string, scope Scope) error {
	made, err := c.compile(text, scope, nil)
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

// Program returns the program of an expression. If the expression is invalid, Program.Evaluate
// returns an error that wraps ErrCompile.
func (c *Compiler) Program(text string, scope Scope, results ...*cel.Type) *Program {
	return c.Programs.get(programKey{text: text, scope: scope, declared: c.signature, results: fmt.Sprint(results)}, func() (checkedExpression, error) {
		return c.compile(text, scope, results)
	})
}

// Variable returns a variable with its program, and declares the variable for later expressions.
func (c *Compiler) Variable(name, text string, scope Scope) Variable {
	p := c.Program(text, scope)
	c.declare(name, p.result, p.shares)
	return Variable{Name: name, Program: p}
}

// checkedExpression is the result of environment.Compile.
type checkedExpression struct {
	*cel.Ast
	shares int
}

func (c *Compiler) compile(text string, scope Scope, results []*cel.Type) (checkedExpression, error) {
	env, err := c.env(scope)
	if err != nil {
		return checkedExpression{}, fmt.Errorf("unexpected error loading CEL environment: %w", err)
	}
	ast, shares, issues := environment.Compile(env, text, c.shares)
	if issues.Err() != nil {
		return checkedExpression{}, errors.New("compilation failed: " + issues.String())
	}
	result := ast.OutputType()
	for _, allowed := range results {
		if result.IsExactType(allowed) {
			return checkedExpression{ast, shares}, nil
		}
	}
	switch len(results) {
	case 0:
		return checkedExpression{ast, shares}, nil
	case 1:
		return checkedExpression{}, fmt.Errorf("must evaluate to %v but got %v", results[0], result)
	}
	return checkedExpression{}, fmt.Errorf("must evaluate to one of %v but got %v", results, result)
}

func (c *Compiler) env(scope Scope) (*cel.Env, error) {
	if have := c.envs[scope]; have != nil {
		return have, nil
	}
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	env, err := base.Extend(c.options(base, scope)...)
	if err != nil {
		return nil, err
	}
	if c.envs == nil {
		c.envs = map[Scope]*cel.Env{}
	}
	c.envs[scope] = env
	return env, nil
}

func (c *Compiler) options(base *cel.Env, scope Scope) []cel.EnvOption {
	options := []cel.EnvOption{
		library.Authorizer(),
		cel.CustomTypeProvider(provider{Provider: c.types(base), compiler: c, patches: scope.Patches}),
		cel.Variable(objectVariable, typeOf(c.Object)),
		cel.Variable(oldObjectVariable, typeOf(c.Object)),
		cel.Variable(namespaceVariable, cel.ObjectType(namespaceName)),
		cel.Variable(requestVariable, cel.ObjectType(requestName)),
	}
	if c.Variables {
		options = append(options, cel.Variable(variablesVariable, cel.ObjectType(variablesName)))
	}
	if scope.Params {
		options = append(options, cel.Variable(paramsVariable, typeOf(c.Params)))
	}
	if scope.Authorizer {
		options = append(options,
			cel.Variable(authorizerVariable, library.AuthorizerType()), cel.Variable(requestResourceVariable, library.ResourceCheckType()))
	}
	if scope.Patches {
		options = append(options, library.JSONPatch())
	}
	return options
}

// types returns a provider that resolves the types in c.Object and c.Params.
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

// variableType returns the type that other expressions see for a variable. As in kube-apiserver, object types
// become dynamic.
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
