package typed

import (
	"strings"

	"github.com/google/cel-go/common/types"
)

// CEL returns the CEL type. Object types have names, which Provider resolves.
func (t *Type) CEL() *types.Type {
	if t.kind == kindObject {
		return t.cel(t.name)
	}
	return t.cel(anonymous)
}

// anonymous is the name of a type that is no object, of which the names of types
// inside of it are made.
const anonymous = "selfType"

// cel is the type at a place. A name is a path from the root: the same object at
// two places has two names, as messages to the authors of expressions show them.
func (t *Type) cel(name string) *types.Type {
	switch t.kind {
	case kindObject:
		return types.NewObjectType(name)
	case kindMapping:
		return types.NewMapType(types.StringType, t.elem.cel(name+".@elem"))
	case kindList:
		return types.NewListType(t.elem.cel(name + ".@idx"))
	case kindString:
		return types.StringType
	case kindBytes:
		return types.BytesType
	case kindDuration:
		return types.DurationType
	case kindDate, kindDateTime:
		return types.TimestampType
	case kindBool:
		return types.BoolType
	case kindNumber:
		return types.DoubleType
	case kindInteger:
		return types.IntType
	}
	return types.DynType
}

// Provider resolves the names of a type's objects, and delegates others to another provider. It
// searches the type without registration, so an expression only pays for the types that it uses.
type Provider struct {
	types.Provider
	Root *Type
}

// find returns the type of a name.
func (p Provider) find(name string) *Type {
	rest, ok := "", false
	if p.Root.kind == kindObject {
		rest, ok = strings.CutPrefix(name, p.Root.name)
	} else {
		rest, ok = strings.CutPrefix(name, anonymous)
	}
	if !ok {
		return nil
	}
	t := p.Root
	for rest != "" {
		if rest[0] != '.' {
			return nil
		}
		var step string
		step, rest, _ = strings.Cut(rest[1:], ".")
		if rest != "" {
			rest = "." + rest
		}
		switch step {
		case "@idx", "@elem":
			t = t.elem
		default:
			t = t.declared(step)
		}
		if t == nil {
			return nil
		}
	}
	return t
}

// FindStructType implements types.Provider.
func (p Provider) FindStructType(name string) (*types.Type, bool) {
	if t := p.find(name); t != nil && t.kind == kindObject {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements types.Provider.
func (p Provider) FindStructFieldNames(name string) ([]string, bool) {
	if p.find(name) != nil {
		return nil, false // objects are not made by expressions
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements types.Provider.
func (p Provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	t := p.find(name)
	if t == nil {
		return p.Provider.FindStructFieldType(name, field)
	}
	if t.kind != kindObject {
		return nil, false
	}
	if member := t.declared(field); member != nil {
		return &types.FieldType{Type: member.cel(name + "." + field)}, true
	}
	if escaped := "__" + field + "__"; isReserved(field) {
		if member := t.declared(escaped); member != nil {
			return &types.FieldType{Type: member.cel(name + "." + escaped)}, true
		}
	}
	return nil, false
}
