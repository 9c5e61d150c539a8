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

// Names of variables.
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

// Lazy is a document that is made when an expression first looks at it: JSON as
// encoding/json decodes it, with integers as int64. It is not copied, and must not change
// while expressions are evaluated. A nil *Lazy is null. It is safe for concurrent use.
type Lazy struct {
	value func() any
}

// NewLazy returns a document. An error of make fails the expressions that look at it; a nil
// document is null.
func NewLazy(make func() (map[string]any, error)) *Lazy {
	return &Lazy{sync.OnceValue(func() any {
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

func (l *Lazy) resolve() (any, bool) {
	if l == nil {
		return types.NullValue, true
	}
	return l.value(), true
}

// Variable is a variable of a policy.
type Variable struct {
	Name    string
	Program *Program
}

// Input contains the variables of a policy's expressions for one request. It is not safe for
// concurrent use.
type Input struct {
	Object, OldObject, Params, Request, Namespace *Lazy
	// Permissions are those of the user, and Resource is the check of the requested resource; nil
	// disables them.
	Permissions *library.Permissions
	Resource    ref.Val
	// Variables are evaluated when they are first used, once.
	Variables []Variable

	ctx    context.Context
	values map[string]ref.Val
	cost   uint64 // of variables, since takeCost
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

// takeCost returns the cost of variables since its last call.
func (in *Input) takeCost() uint64 {
	cost := in.cost
	in.cost = 0
	return cost
}

// variable returns the value of a variable; false if there is none with this name.
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

// variables is the value of "variables", with a field for each variable.
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

// IsSet implements traits.FieldTester: all are.
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
