package oidc

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/cel/environment"
)

// Variables of expressions.
const (
	claimsVariable = "claims" // a map of the claims of the token
	userVariable   = "user"   // a map with username, uid, groups and extra
)

// expression is a compiled CEL expression with one variable. It is safe for concurrent use.
type expression struct {
	text     string
	variable string
	program  cel.Program
	ast      *ast.AST
}

// compiler compiles expressions and collects their errors. It is not safe for concurrent use.
type compiler struct {
	environments map[string]*cel.Env
	errs         field.ErrorList
}

func newCompiler() (*compiler, error) {
	c := &compiler{environments: map[string]*cel.Env{}}
	base, err := environment.Base()
	if err != nil {
		return nil, err
	}
	for _, variable := range []string{claimsVariable, userVariable} {
		c.environments[variable], err = base.Extend(cel.Variable(variable, cel.MapType(cel.StringType, cel.DynType)))
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// compile returns a compiled expression. It returns nil and records an error if the expression is
// invalid or its result has neither an allowed type nor the dynamic type.
func (c *compiler) compile(text, variable string, at *field.Path, allowed ...*cel.Type) *expression {
	invalid := func(why string) *expression {
		c.errs = append(c.errs, field.Invalid(at, text, why))
		return nil
	}
	compiled, _, issues := environment.Compile(c.environments[variable], text, nil)
	if issues.Err() != nil {
		return invalid("compilation failed: " + issues.String())
	}
	out := compiled.OutputType()
	fits := out.IsExactType(cel.DynType)
	for _, t := range allowed {
		fits = fits || out.IsExactType(t)
	}
	if !fits {
		return invalid(fmt.Sprintf("must evaluate to one of %v, not %s", allowed, out))
	}
	program, err := c.environments[variable].Program(compiled, environment.ProgramOptions()...)
	if err != nil {
		return invalid("instantiation failed: " + err.Error())
	}
	return &expression{text: text, variable: variable, program: program, ast: compiled.NativeRep()}
}

// uses reports whether the expression reads the given claim by its constant name, for example as claims.email.
func (e *expression) uses(claim string) bool {
	found := false
	ast.PreOrderVisit(e.ast.Expr(), ast.NewExprVisitor(func(expr ast.Expr) {
		switch expr.Kind() {
		case ast.SelectKind:
			s := expr.AsSelect()
			found = found || s.FieldName() == claim && isClaims(s.Operand())
		case ast.CallKind: // claims["email"], claims[?"email"], claims.?email
			args := expr.AsCall().Args()
			found = found || len(args) == 2 && isClaims(args[0]) && args[1].Kind() == ast.LiteralKind && args[1].AsLiteral() == types.String(claim)
		}
	}))
	return found
}

func isClaims(expr ast.Expr) bool {
	return expr.Kind() == ast.IdentKind && expr.AsIdent() == claimsVariable
}

func (e *expression) evaluate(ctx context.Context, value map[string]any) (ref.Val, error) {
	out, _, err := e.program.ContextEval(ctx, map[string]any{e.variable: value})
	if err != nil {
		return nil, fmt.Errorf("expression '%s' resulted in error: %w", e.text, err)
	}
	return out, nil
}

func (e *expression) evaluateBool(ctx context.Context, value map[string]any) (bool, error) {
	out, err := e.evaluate(ctx, value)
	return out == types.True, err
}

// evaluateString evaluates an expression whose result must be a string. The string may be empty.
func (e *expression) evaluateString(ctx context.Context, value map[string]any) (string, error) {
	out, err := e.evaluate(ctx, value)
	if err != nil {
		return "", err
	}
	text, ok := out.(types.String)
	if !ok {
		return "", fmt.Errorf("expression '%s' must return a string, not %s", e.text, out.Type())
	}
	return string(text), nil
}

// evaluateStrings evaluates an expression whose result is a string, a list of strings, or null. An
// empty string and null result in no values.
func (e *expression) evaluateStrings(ctx context.Context, value map[string]any) ([]string, error) {
	out, err := e.evaluate(ctx, value)
	if err != nil {
		return nil, err
	}
	switch out := out.(type) {
	case types.Null:
		return nil, nil
	case types.String:
		if out == "" {
			return nil, nil
		}
		return []string{string(out)}, nil
	case traits.Lister:
		var texts []string
		for it := out.Iterator(); it.HasNext() == types.True; {
			text, ok := it.Next().(types.String)
			if !ok {
				return nil, fmt.Errorf("expression '%s' must return a list of strings", e.text)
			}
			texts = append(texts, string(text))
		}
		return texts, nil
	}
	return nil, errors.New("expression '" + e.text + "' must return a string or a list of strings")
}
