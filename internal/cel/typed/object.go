package typed

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// object is an object in a document. If its schema has properties, only these properties are accessible, and a
// property that is null counts as absent. If its schema has additionalProperties, all members are accessible.
type object struct {
	typ     *Type
	members map[string]any
}

var _ traits.Mapper = (*object)(nil)

// documentName returns the name in the document of the member with a CEL name.
func (o *object) documentName(name string) string {
	if plain, found := o.typ.escaped[name]; found {
		return plain
	}
	return name
}

// memberType returns the type of the member with a name in the document, or nil if the member is not
// accessible.
func (o *object) memberType(name string) *Type {
	if o.typ.kind == kindMapping {
		return o.typ.elem
	}
	return o.typ.fields[name]
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	text, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	name := o.documentName(string(text))
	value, found := o.members[name]
	if !found || value == nil && o.typ.kind == kindObject {
		return nil, false
	}
	t := o.memberType(name)
	if t == nil {
		return nil, false
	}
	return t.Value(value), true
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	value, found := o.Find(key)
	if found {
		return value
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	value, found := o.Find(key)
	if value != nil && types.IsUnknownOrError(value) {
		return value
	}
	return types.Bool(found)
}

// Size implements traits.Sizer.
func (o *object) Size() ref.Val { return types.Int(len(o.members)) }

// Iterator implements traits.Iterable. It returns the names in sorted order, so that evaluation is
// deterministic.
func (o *object) Iterator() traits.Iterator {
	it := &keys{names: make([]string, 0, len(o.members))}
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if o.memberType(name) == nil {
			continue
		}
		if escaped, ok := Escape(name); ok && o.typ.kind == kindObject {
			name = escaped
		}
		it.names = append(it.names, name)
	}
	return it
}

// Equal implements ref.Val. It also compares members that are not accessible.
func (o *object) Equal(other ref.Val) ref.Val {
	mapper, ok := other.(traits.Mapper)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if o.Size().Equal(mapper.Size()) != types.True {
		return types.False
	}
	document, isObject := other.(*object)
	for name, value := range o.members {
		t := o.memberType(name)
		if isObject {
			theirs, found := document.members[name]
			if !found {
				return types.False
			}
			if t == nil || value == nil || theirs == nil {
				if !equalJSON(value, theirs) {
					return types.False
				}
				continue
			}
			if equal := t.Value(value).Equal(t.Value(theirs)); equal != types.True {
				return equal
			}
			continue
		}
		if t == nil {
			return types.MaybeNoSuchOverloadErr(other)
		}
		theirs, found := mapper.Find(types.String(name))
		if !found {
			return types.False
		}
		if equal := t.Value(value).Equal(theirs); equal != types.True {
			return equal
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(to reflect.Type) (any, error) {
	if to.Kind() == reflect.Map || to.Kind() == reflect.Interface {
		return o.members, nil
	}
	return nil, fmt.Errorf("type conversion error from '%s' to '%s'", o.Type(), to)
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.Type(), to.TypeName())
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.MapType }

// Value implements ref.Val. It returns the document's map, not a copy.
func (o *object) Value() any { return o.members }

// keys iterates over the names of accessible members.
type keys struct {
	iteratorValue
	names []string
	next  int
}

// HasNext implements traits.Iterator.
func (k *keys) HasNext() ref.Val { return types.Bool(k.next < len(k.names)) }

// Next implements traits.Iterator.
func (k *keys) Next() ref.Val {
	if k.next >= len(k.names) {
		return nil
	}
	k.next++
	return types.String(k.names[k.next-1])
}

// iteratorValue implements the methods of ref.Val for iterators. cel-go does not call these methods.
type iteratorValue struct{}

// ConvertToNative implements ref.Val.
func (iteratorValue) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion on iterators not supported")
}

// ConvertToType implements ref.Val.
func (iteratorValue) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// Equal implements ref.Val.
func (iteratorValue) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// Type implements ref.Val.
func (iteratorValue) Type() ref.Type { return types.IteratorType }

// Value implements ref.Val.
func (iteratorValue) Value() any { return nil }

// equalJSON reports whether two JSON values are equal.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, found := b[name]; !found || !equalJSON(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
