package jsonplan

import (
	"reflect"
	"strings"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// member is a field of a struct, including the fields of embedded structs.
type member struct {
	offset uintptr
	name   string
	// key is the encoded name with its separators: `,"name":`.
	key string
	t   reflect.Type
	// inTypeMeta means that the field is in TypeMeta, which protobuf preserves for complete objects
	// only.
	inTypeMeta bool
	omit       omission
	isZero     func(unsafe.Pointer) bool // for omitZero
	encode     encodeFunc
	decode     decodeFunc
}

// omission is the condition for omitting a field.
type omission uint8

const (
	never omission = iota
	omitText
	omitPointer // nil pointers and nil interfaces
	omitSlice
	omitBool
	omit32
	omit64
	omitZero // if isZero returns true
)

func (m *member) omitted(p unsafe.Pointer) bool {
	switch m.omit {
	case omitText:
		return len(*(*string)(p)) == 0
	case omitPointer:
		return *(*unsafe.Pointer)(p) == nil
	case omitSlice:
		return len(*(*[]byte)(p)) == 0
	case omitBool:
		return !*(*bool)(p)
	case omit32:
		return *(*int32)(p) == 0
	case omit64:
		return *(*int64)(p) == 0
	case omitZero:
		return m.isZero(p)
	}
	return false
}

func structPlan(t reflect.Type) encodeFunc {
	members, ok := membersOf(t)
	if !ok {
		return slowPlan(t)
	}
	for i := range members {
		members[i].encode = planOf(members[i].t)
	}
	return func(w *writer, b []byte, p unsafe.Pointer) []byte {
		b = append(b, '{')
		start := len(b)
		for i := range members {
			m := &members[i]
			at := unsafe.Add(p, m.offset)
			if m.omitted(at) {
				continue
			}
			if m.inTypeMeta && w.readBack && p != w.top {
				w.failed = true
			}
			if len(b) == start {
				b = append(b, m.key[1:]...)
			} else {
				b = append(b, m.key...)
			}
			b = m.encode(w, b, at)
		}
		return append(b, '}')
	}
}

// membersOf returns the fields of a struct according to the rules of encoding/json. It returns false for
// features that API types do not use: two fields with the same name, embedded pointers, and quoted numbers.
func membersOf(t reflect.Type) ([]member, bool) {
	members, ok := collectMembers(nil, t, 0)
	names := make(map[string]bool, len(members))
	for i := range members {
		if names[members[i].name] {
			return nil, false
		}
		names[members[i].name] = true
	}
	return members, ok
}

func collectMembers(members []member, t reflect.Type, offset uintptr) (_ []member, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if tag == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" && f.Anonymous {
			if f.Type.Kind() != reflect.Struct {
				return nil, false
			}
			if members, ok = collectMembers(members, f.Type, offset+f.Offset); !ok {
				return nil, false
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if !isPlainName(name) || hasOption(options, "string") {
			return nil, false
		}
		m := member{offset: offset + f.Offset, name: name, key: `,"` + name + `":`, t: f.Type, inTypeMeta: t == reflect.TypeFor[metav1.TypeMeta]()}
		m.omit, m.isZero = omissionOf(f.Type, options)
		members = append(members, m)
	}
	return members, true
}

func isPlainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '$' {
			return false
		}
	}
	return true
}

func hasOption(options, option string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == option {
			return true
		}
	}
	return false
}

func omissionOf(t reflect.Type, options string) (omission, func(unsafe.Pointer) bool) {
	empty, zero := hasOption(options, "omitempty"), hasOption(options, "omitzero")
	switch {
	case empty && zero:
		isEmpty, isZero := isEmptyFunc(t), isZeroFunc(t)
		return omitZero, func(p unsafe.Pointer) bool { return isEmpty(p) || isZero(p) }
	case zero:
		return omitZero, isZeroFunc(t)
	case !empty:
		return never, nil
	}
	switch t.Kind() {
	case reflect.String:
		return omitText, nil
	case reflect.Pointer, reflect.Interface:
		return omitPointer, nil
	case reflect.Slice:
		return omitSlice, nil
	case reflect.Bool:
		return omitBool, nil
	case reflect.Int32, reflect.Uint32:
		return omit32, nil
	case reflect.Int64, reflect.Uint64:
		return omit64, nil
	case reflect.Struct:
		return never, nil
	}
	return omitZero, isEmptyFunc(t)
}

// isEmptyFunc returns a function that reports whether the option omitempty omits a value.
func isEmptyFunc(t reflect.Type) func(unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.Map:
		return func(p unsafe.Pointer) bool {
			return *(*unsafe.Pointer)(p) == nil || reflect.NewAt(t, p).Elem().Len() == 0
		}
	case reflect.Array, reflect.Slice, reflect.String:
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().Len() == 0 }
	case reflect.Struct:
		return func(unsafe.Pointer) bool { return false }
	}
	return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }
}

type zeroer interface{ IsZero() bool }

// isZeroFunc returns a function that reports whether the option omitzero omits a value. It calls the IsZero
// method of the type, if there is one.
func isZeroFunc(t reflect.Type) func(unsafe.Pointer) bool {
	isZeroer := reflect.TypeFor[zeroer]()
	switch {
	case t.Kind() == reflect.Interface:
		// API types have no such field; encoding/json would call the IsZero method of the value.
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	case t.Kind() == reflect.Pointer && t.Implements(isZeroer):
		return func(p unsafe.Pointer) bool {
			v := reflect.NewAt(t, p).Elem()
			return v.IsNil() || v.Interface().(zeroer).IsZero()
		}
	case reflect.PointerTo(t).Implements(isZeroer):
		return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Interface().(zeroer).IsZero() }
	}
	return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }
}
