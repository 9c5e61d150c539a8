package typed

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// list is a list in a document, or the concatenation of several lists. Sets and list maps are compared and
// concatenated by the rules of their list type.
type list struct {
	typ *Type
	// raw contains the elements of a list in a document, and vals contains the elements of a concatenation. One
	// of the two is nil.
	raw  []any
	vals []ref.Val
}

var _ traits.Lister = (*list)(nil)

func (l *list) len() int {
	if l.vals != nil {
		return len(l.vals)
	}
	return len(l.raw)
}

func (l *list) at(i int) ref.Val {
	if l.vals != nil {
		return l.vals[i]
	}
	return l.typ.elem.Value(l.raw[i])
}

// Get implements traits.Indexer.
func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	if i < 0 || i >= l.len() {
		return types.NewErr("index out of bounds: %v", index)
	}
	return l.at(i)
}

// Contains implements traits.Container.
func (l *list) Contains(value ref.Val) ref.Val {
	if types.IsUnknownOrError(value) {
		return value
	}
	var fault ref.Val
	for i := range l.len() {
		switch equal := l.at(i).Equal(value).(type) {
		case types.Bool:
			if equal {
				return types.True
			}
		default:
			if fault == nil {
				fault = types.MaybeNoSuchOverloadErr(equal)
			}
		}
	}
	if fault != nil {
		return fault
	}
	return types.False
}

// Size implements traits.Sizer.
func (l *list) Size() ref.Val { return types.Int(l.len()) }

// Iterator implements traits.Iterable.
func (l *list) Iterator() traits.Iterator { return &elements{list: l} }

type elements struct {
	iteratorValue
	list *list
	next int
}

// HasNext implements traits.Iterator.
func (e *elements) HasNext() ref.Val { return types.Bool(e.next < e.list.len()) }

// Next implements traits.Iterator.
func (e *elements) Next() ref.Val {
	if e.next >= e.list.len() {
		return nil
	}
	e.next++
	return e.list.at(e.next - 1)
}

// Equal implements ref.Val. For sets and list maps, it ignores the order of the elements.
func (l *list) Equal(other ref.Val) ref.Val {
	lister, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if l.Size().Equal(lister.Size()) != types.True {
		return types.False
	}
	switch l.typ.listType {
	case "set":
		return l.equalSet(lister)
	case "map":
		return l.equalMap(lister)
	}
	return l.equalInOrder(lister)
}

func (l *list) equalInOrder(other traits.Lister) ref.Val {
	for i := range l.len() {
		if equal := l.at(i).Equal(other.Get(types.Int(i))); equal != types.True {
			return equal
		}
	}
	return types.True
}

func (l *list) equalSet(other traits.Lister) ref.Val {
	missing := make(map[any]bool, l.len())
	for i := range l.len() {
		missing[identity(l.at(i))] = true
	}
	for it := other.Iterator(); it.HasNext() == types.True; {
		id := identity(it.Next())
		if _, found := missing[id]; !found {
			return types.False
		}
		missing[id] = false
	}
	for _, still := range missing {
		if still {
			return types.False
		}
	}
	return types.True
}

func (l *list) equalMap(other traits.Lister) ref.Val {
	entries := make(map[any]ref.Val, l.len())
	for i := range l.len() {
		entry := l.at(i)
		entries[l.key(entry)] = entry
	}
	if len(entries) < l.len() {
		return l.equalInOrder(other) // keys are not unique
	}
	met := make(map[any]bool, len(entries))
	for it := other.Iterator(); it.HasNext() == types.True; {
		theirs := it.Next()
		key := l.key(theirs)
		ours, found := entries[key]
		if !found {
			return types.False
		}
		if equal := ours.Equal(theirs); equal != types.True {
			return equal
		}
		met[key] = true
	}
	return types.Bool(len(met) == len(entries))
}

// Add implements traits.Adder. It does not add elements that a set already contains. In a list map, the added
// entries replace entries with the same keys.
func (l *list) Add(other ref.Val) ref.Val {
	lister, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	sum := &list{typ: l.typ, vals: make([]ref.Val, 0, l.len())}
	identify := func(value ref.Val) any { return nil }
	switch l.typ.listType {
	case "set":
		identify = identity
	case "map":
		identify = l.key
	}
	places := map[any]int{}
	add := func(value ref.Val) {
		if id := identify(value); id != nil {
			if place, found := places[id]; found {
				sum.vals[place] = value
				return
			}
			places[id] = len(sum.vals)
		}
		sum.vals = append(sum.vals, value)
	}
	for i := range l.len() {
		add(l.at(i))
	}
	for it := lister.Iterator(); it.HasNext() == types.True; {
		add(it.Next())
	}
	return sum
}

// key returns a comparable representation of the keys of an entry in a list map.
func (l *list) key(entry ref.Val) any {
	mapper, ok := entry.(traits.Mapper)
	if !ok {
		return identity(entry)
	}
	if len(l.typ.keys) == 1 {
		return keyValue(mapper, l.typ.keys[0])
	}
	var key [4]any
	more := make([]any, 0, max(0, len(l.typ.keys)-len(key)))
	for i, name := range l.typ.keys {
		if i < len(key) {
			key[i] = keyValue(mapper, name)
		} else {
			more = append(more, keyValue(mapper, name))
		}
	}
	if len(more) > 0 {
		key[3] = fmt.Sprintf("%#v %#v", key[3], more)
	}
	return key
}

// keyValue returns a comparable representation of a key member. It uses the escaped name, because the entry may
// be the result of an expression.
func keyValue(entry traits.Mapper, name string) any {
	if escaped, ok := Escape(name); ok {
		name = escaped
	}
	value, found := entry.Find(types.String(name))
	if !found {
		return types.NullValue
	}
	return identity(value)
}

// identity returns a comparable representation of a value, which can be used as a map key.
func identity(value ref.Val) any {
	switch value := value.(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Duration, types.Null:
		return value
	case types.Timestamp:
		return [2]int64{value.Unix(), int64(value.Nanosecond())}
	case types.Bytes:
		return [1]string{string(value)}
	}
	encoded, err := json.Marshal(value.Value())
	if err != nil {
		return value // not equal to any other value
	}
	return [2]string{"json", string(encoded)}
}

// ConvertToNative implements ref.Val.
func (l *list) ConvertToNative(to reflect.Type) (any, error) {
	if to == reflect.TypeFor[[]any]() || to.Kind() == reflect.Interface {
		return l.Value(), nil
	}
	if to.Kind() != reflect.Slice {
		return nil, fmt.Errorf("type conversion error from '%s' to '%s'", l.Type(), to)
	}
	native := reflect.MakeSlice(to, l.len(), l.len())
	for i := range l.len() {
		element, err := l.at(i).ConvertToNative(to.Elem())
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		native.Index(i).Set(reflect.ValueOf(element))
	}
	return native.Interface(), nil
}

// ConvertToType implements ref.Val.
func (l *list) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", l.Type(), to.TypeName())
}

// Type implements ref.Val.
func (l *list) Type() ref.Type { return types.ListType }

// Value implements ref.Val. For a list in a document, it returns the document's slice, not a copy.
func (l *list) Value() any {
	if l.vals == nil {
		return l.raw
	}
	values := make([]any, len(l.vals))
	for i, value := range l.vals {
		values[i] = value.Value()
	}
	return values
}
