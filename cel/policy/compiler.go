package policy

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"

	"mainstay.dev/mainstay/cel/environment"
	"mainstay.dev/mainstay/cel/library"
)

// Scope is what an expression sees besides object, oldObject, request and
// namespaceObject.
type Scope struct {
	// Params: the object that a binding brings.
	Params bool
	// Authorizer: whether somebody may do something.
	Authorizer bool
	// Patches: the types that a mutation is made of.
	Patches bool
}

// Compiler checks the expressions of one policy or webhook. The zero value is ready
// for use. It is not safe for concurrent use.
type Compiler struct {
	// Variables lets expressions see the variables that were declared so far.
	Variables bool

	declared map[string]*cel.Type
	made     map[Scope]*cel.Env // they are large, and few of a policy
}

// Check returns what is wrong with an expression, nil for nothing. It must have one of
// the types; without any, it may have all.
func (c *Compiler) Check(text string, sees Scope, results ...*cel.Type) error {
	_, err := c.compile(text, sees, results)
	return err
}

// Declare checks the expression of a variable, which later expressions see, even where
// something is wrong with it.
func (c *Compiler) Declare(name, text string, sees Scope) error {
	result, err := c.compile(text, sees, nil)
	if err != nil {
		result = cel.DynType
	}
	if c.declared == nil {
		c.declared = map[string]*cel.Type{}
	}
	c.declared[name] = variableType(result)
	return err
}

func (c *Compiler) compile(text string, sees Scope, results []*cel.Type) (*cel.Type, error) {
	env, err := c.env(sees)
	if err != nil {
		return nil, fmt.Errorf("unexpected error loading CEL environment: %w", err)
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, errors.New("compilation failed: " + issues.String())
	}
	result := ast.OutputType()
	for _, allowed := range results {
		if result.IsExactType(allowed) {
			return result, nil
		}
	}
	switch len(results) {
	case 0:
		return result, nil
	case 1:
		return nil, fmt.Errorf("must evaluate to %v but got %v", results[0], result)
	}
	return nil, fmt.Errorf("must evaluate to one of %v but got %v", results, result)
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
	options := append(permissions(),
		cel.CustomTypeProvider(provider{Provider: base.CELTypeProvider(), compiler: c, patches: sees.Patches}),
		cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType),
		cel.Variable("namespaceObject", cel.ObjectType(namespaceName)),
		cel.Variable("request", cel.ObjectType(requestName)),
	)
	if c.Variables {
		options = append(options, cel.Variable("variables", cel.ObjectType(variablesName)))
	}
	if sees.Params {
		options = append(options, cel.Variable("params", cel.DynType))
	}
	if sees.Authorizer {
		options = append(options,
			cel.Variable("authorizer", authorizerType()), cel.Variable("authorizer.requestResource", resourceCheckType()))
	}
	if sees.Patches {
		options = append(options, library.JSONPatch())
	}
	return options
}

// variableType is what a variable of a type is seen as: objects lose their types.
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
