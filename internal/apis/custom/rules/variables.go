package rules

import (
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// variables contains the values of the variables of an expression.
type variables struct {
	self, oldSelf ref.Val // oldSelf may be nil
}

var _ interpreter.Activation = (*variables)(nil)

// ResolveName implements interpreter.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case selfName:
		return v.self, true
	case oldSelfName:
		return v.oldSelf, v.oldSelf != nil
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (v *variables) Parent() interpreter.Activation { return nil }
