package policy

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"mainstay.dev/mainstay/internal/cel/library"
)

// The names of the variables.
const (
	objectVariable          = "object"
	oldObjectVariable       = "oldObject"
	paramsVariable          = "params"
	requestVariable         = "request"
	namespaceVariable       = "namespaceObject"
	authorizerVariable      = "authorizer"
	requestResourceVariable = "authorizer.requestResource"
	variablesVariable       = "variables"
)

// LazyDocument is a JSON document that is created when an expression first accesses it. It consists of the Go
// types of encoding/json, except that integers are int64. It is not copied, and must not be modified while
// expressions are evaluated. A nil *LazyDocument represents null. It is safe for concurrent use.
type LazyDocument struct {
	value func() any
}

// NewLazyDocument returns a document that is created by make, which is called at most once. If make returns an
// error, expressions that access the document fail. A nil map becomes null.
func NewLazyDocument(make func() (map[string]any, error)) *LazyDocument {
	return &LazyDocument{sync.OnceValue(func() any {
		document, err := make()
		switch {
		case err != nil:
			return types.WrapErr(err)
		case document == nil:
			return types.NullValue
		}
		return document
	})}
}

func (l *LazyDocument) resolve() (any, bool) {
	if l == nil {
		return types.NullValue, true
	}
	return l.value(), true
}

// Variable is a variable of a policy. In expressions, it is a field of "variables".
type Variable struct {
	Name    string
	Program *Program
}

// Input contains the values of the variables for one request. It is not safe for concurrent use.
type Input struct {
	Object, OldObject, Params, Request, Namespace *LazyDocument
	// Permissions evaluates the authorization checks in expressions, and Resource is the value of
	// authorizer.requestResource. If they are nil, the variables do not exist.
	Permissions *library.Permissions
	Resource    ref.Val
	// Each of the Variables is evaluated only once, when it is first used.
	Variables []Variable

	ctx    context.Context
	values map[string]ref.Val
	cost   uint64 // cost of evaluating variables since the last call of takeCost
}

var _ interpreter.Activation = (*Input)(nil)

// ResolveName implements interpreter.Activation.
func (in *Input) ResolveName(name string) (any, bool) {
	switch name {
	case objectVariable:
		return in.Object.resolve()
	case oldObjectVariable:
		return in.OldObject.resolve()
	case paramsVariable:
		return in.Params.resolve()
	case requestVariable:
		return in.Request.resolve()
	case namespaceVariable:
		return in.Namespace.resolve()
	case variablesVariable:
		return variables{in}, true
	case authorizerVariable:
		if in.Permissions != nil {
			return in.Permissions.Authorizer(), true
		}
	case requestResourceVariable:
		return in.Resource, in.Resource != nil
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (in *Input) Parent() interpreter.Activation { return nil }

// takeCost returns the accumulated cost of evaluating variables, and resets it.
func (in *Input) takeCost() uint64 {
	cost := in.cost
	in.cost = 0
	return cost
}

// variable returns the value of a variable, or false if there is no such variable.
func (in *Input) variable(name string) (ref.Val, bool) {
	if have, done := in.values[name]; done {
		return have, true
	}
	for i := range in.Variables {
		if in.Variables[i].Name != name {
			continue
		}
		value := in.evaluate(&in.Variables[i])
		if in.values == nil {
			in.values = map[string]ref.Val{}
		}
		in.values[name] = value
		return value, true
	}
	return nil, false
}

func (in *Input) evaluate(v *Variable) ref.Val {
	if v.Program.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", v.Name, v.Program.err)
	}
	value, details, err := v.Program.program.ContextEval(in.ctx, in)
	if details == nil || details.ActualCost() == nil {
		return types.NewErr("unable to calculate cost of variable %q", v.Name)
	}
	if in.cost += *details.ActualCost(); in.cost < *details.ActualCost() {
		in.cost = math.MaxUint64
	}
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", v.Name, err)
	}
	return value
}

// variables is the value of the variable "variables", whose fields are the variables of the policy.
type variables struct{ in *Input }

var _ interface {
	ref.Val
	traits.Indexer
	traits.FieldTester
} = variables{}

// Get implements traits.Indexer.
func (v variables) Get(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(field)
	}
	if value, found := v.in.variable(string(name)); found {
		return value
	}
	return types.NewErr("no such key: %v", name)
}

// IsSet implements traits.FieldTester. Every declared variable counts as set.
func (v variables) IsSet(field ref.Val) ref.Val {
	value := v.Get(field)
	if types.IsError(value) {
		return value
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (v variables) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", variablesName, to)
}

// ConvertToType implements ref.Val.
func (v variables) ConvertToType(to ref.Type) ref.Val {
	return types.NewErr("type conversion error from '%s' to '%s'", variablesName, to)
}

// Equal implements ref.Val.
func (v variables) Equal(other ref.Val) ref.Val { return types.MaybeNoSuchOverloadErr(other) }

// Type implements ref.Val.
func (v variables) Type() ref.Type { return types.NewObjectType(variablesName) }

// Value implements ref.Val.
func (v variables) Value() any { return v }
