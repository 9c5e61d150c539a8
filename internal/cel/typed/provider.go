package typed

import (
	"strings"

	"github.com/google/cel-go/common/types"
)

// CEL returns the CEL type. The CEL types of objects have names. Only a Provider can resolve these names; its
// Root must be this type or a type that contains this type.
func (t *Type) CEL() *types.Type {
	if t.kind == kindObject {
		return t.celType(t.name)
	}
	return t.celType(anonymousName)
}

// anonymousName is the first part of generated type names.
const anonymousName = "selfType"

// celType returns the CEL type of a value at a path. The name of an object type is its path from the root,
// because error messages contain the name. An object type that occurs at two paths therefore has two names.
func (t *Type) celType(name string) *types.Type {
	switch t.kind {
	case kindObject:
		return types.NewObjectType(name)
	case kindMapping:
		return types.NewMapType(types.StringType, t.elem.celType(name+".@elem"))
	case kindList:
		return types.NewListType(t.elem.celType(name + ".@idx"))
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

// Provider resolves the names of the object types in Root, and delegates all other names to the embedded
// provider. It resolves a name by following the path in the name, so the cost depends only on the types that an
// expression uses. It is safe for concurrent use if the embedded provider is.
type Provider struct {
	types.Provider
	Root *Type
}

// find returns the type with the given name, or nil if Root does not contain it.
func (p Provider) find(name string) *Type {
	rest, ok := "", false
	if p.Root.kind == kindObject {
		rest, ok = strings.CutPrefix(name, p.Root.name)
	} else {
		rest, ok = strings.CutPrefix(name, anonymousName)
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
			t = t.fieldByCELName(step)
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
		return nil, false // expressions cannot create objects
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
	if member := t.fieldByCELName(field); member != nil {
		return &types.FieldType{Type: member.celType(name + "." + field)}, true
	}
	if escaped := "__" + field + "__"; isReserved(field) {
		if member := t.fieldByCELName(escaped); member != nil {
			return &types.FieldType{Type: member.celType(name + "." + escaped)}, true
		}
	}
	return nil, false
}
