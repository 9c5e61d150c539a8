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

// object is an object of a document. With properties, only these are accessible, and null counts as
// absent; with additionalProperties, all members are accessible.
type object struct {
	typ     *Type
	members map[string]any
}

var _ traits.Mapper = (*object)(nil)

// plain returns the name of a member in the document from its name in CEL.
func (o *object) plain(name string) string {
	if plain, found := o.typ.escaped[name]; found {
		return plain
	}
	return name
}

// member returns the type of a member by its name in the document, nil if it is not
// accessible.
func (o *object) member(name string) *Type {
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
	name := o.plain(string(text))
	value, found := o.members[name]
	if !found || value == nil && o.typ.kind == kindObject {
		return nil, false
	}
	t := o.member(name)
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

// Iterator implements traits.Iterable: the names, sorted, so that evaluation is
// deterministic.
func (o *object) Iterator() traits.Iterator {
	it := &keys{names: make([]string, 0, len(o.members))}
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if o.member(name) == nil {
			continue
		}
		if escaped, ok := Escape(name); ok && o.typ.kind == kindObject {
			name = escaped
		}
		it.names = append(it.names, name)
	}
	return it
}

// Equal implements ref.Val. It compares inaccessible members as well.
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
		t := o.member(name)
		if isObject {
			theirs, found := document.members[name]
			if !found {
				return types.False
			}
			if t == nil || value == nil || theirs == nil {
				if !sameJSON(value, theirs) {
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

// Value implements ref.Val: the document's own.
func (o *object) Value() any { return o.members }

// keys iterates over names.
type keys struct {
	noValue
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

// noValue implements ref.Val for iterators; cel-go does not use it.
type noValue struct{}

// ConvertToNative implements ref.Val.
func (noValue) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion on iterators not supported")
}

// ConvertToType implements ref.Val.
func (noValue) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// Equal implements ref.Val.
func (noValue) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// Type implements ref.Val.
func (noValue) Type() ref.Type { return types.IteratorType }

// Value implements ref.Val.
func (noValue) Value() any { return nil }

// sameJSON compares values of documents.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, found := b[name]; !found || !sameJSON(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
