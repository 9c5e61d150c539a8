package precheck

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Shape describes where the encodings of a Go type contain quantities, and how much memory the decoded
// values need. A nil *Shape means that no check is needed; its methods return nil. A Shape is immutable and
// safe for concurrent use.
type Shape struct {
	isQuantity bool
	// checkValue checks a protobuf message as a whole instead of its members; nil if there is nothing to
	// check.
	checkValue func(message []byte) error
	// members contains the fields of a struct by JSON name, and numbers by protobuf field number. Fields
	// that need no check are absent from both.
	members map[string]part
	numbers map[int32]part
	// elem describes a list's elements, or a map's entries.
	elem          part
	isList, isMap bool
	// containsQuantity reports whether the type contains quantities, and largest is the size of the largest
	// part in it, in bytes. Only ShapeOf sets them.
	containsQuantity bool
	largest          int
}

// part is a field of a struct, an element of a list, or an entry of a map.
type part struct {
	// shape is nil if the content needs no check.
	shape *Shape
	// size is the memory that a decoder allocates for the part, in bytes. It is 0 for a field whose value
	// is stored inside the struct.
	size int
}

//nolint:gochecknoglobals // a cache; shapes depend on their types only
var shapes sync.Map // of *Shape by reflect.Type

// ShapeOf returns the shape of the type that the pointer v points to, or nil if the type needs no check.
// Shapes are cached.
func ShapeOf(v any) *Shape {
	t := reflect.TypeOf(v).Elem()
	if made, ok := shapes.Load(t); ok {
		return made.(*Shape)
	}
	c := compiler{object: t, shapes: map[shapeKey]*Shape{}}
	made := c.shape(t, false)
	for _, s := range c.shapes {
		s.prune()
	}
	if made.containsQuantity, made.largest, _ = made.content(); !made.needsCheck() {
		made = nil
	}
	kept, _ := shapes.LoadOrStore(t, made)
	return kept.(*Shape)
}

// compiler creates the shape of a type and of the types in it.
type compiler struct {
	object reflect.Type // the type of the whole object
	shapes map[shapeKey]*Shape
}

type shapeKey struct {
	reflect.Type
	// ofMetadata is set for the types in the metadata of the object. Invalid managed fields there are not an
	// error: the server ignores them.
	ofMetadata bool
}

func (c compiler) shape(t reflect.Type, ofMetadata bool) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	key := shapeKey{t, ofMetadata}
	if made, ok := c.shapes[key]; ok {
		return made
	}
	s := &Shape{}
	c.shapes[key] = s // set early, because types may be recursive
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		s.isQuantity = true
	case t == reflect.TypeFor[metav1.Time](), t == reflect.TypeFor[metav1.MicroTime]():
		s.checkValue = checkTime
	case t == reflect.TypeFor[metav1.FieldsV1]():
		if !ofMetadata {
			s.checkValue = checkJSONText
		}
	case t == reflect.TypeFor[runtime.RawExtension](), t == reflect.TypeFor[apiextensionsv1.JSON]():
		s.checkValue = checkJSONText
	case t == reflect.TypeFor[intstr.IntOrString]():
		s.checkValue = checkIntOrString
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		s.elem, s.isList = part{c.shape(t.Elem(), ofMetadata), memory(t.Elem())}, true
	case t.Kind() == reflect.Map:
		s.elem, s.isMap = part{c.shape(t.Elem(), ofMetadata), int(t.Key().Size()) + memory(t.Elem())}, true
	case t.Kind() == reflect.Struct:
		s.members, s.numbers = map[string]part{}, map[int32]part{}
		c.fields(s, t, ofMetadata)
	}
	return s
}

func (c compiler) fields(s *Shape, t reflect.Type, ofMetadata bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		sub := c.shape(f.Type, ofMetadata || t == c.object && f.Type == reflect.TypeFor[metav1.ObjectMeta]())
		p := part{shape: sub}
		if f.Type.Kind() == reflect.Pointer {
			p.size = memory(f.Type)
		}
		switch {
		case decodesItself(t):
			// A value of such a type is encoded as an object, which is decoded into one field, or as a
			// list, which is decoded into another, as in JSONSchemaPropsOrArray.
			if f.IsExported() && f.Type.Kind() == reflect.Pointer && sub.members != nil {
				s.members = sub.members
			} else if f.IsExported() && f.Type.Kind() == reflect.Slice {
				s.elem = sub.elem
			}
		case name == "-":
			continue
		case f.Anonymous && name == "":
			maps.Copy(s.members, sub.members)
		case name == "":
			s.members[f.Name] = p
		default:
			s.members[name] = p
		}
		if number, ok := protobufNumber(f.Tag.Get("protobuf")); ok {
			s.numbers[number] = p
		}
	}
}

// decodesItself reports whether a type has its own JSON decoder.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// memory returns the size of a value, or of the struct that a pointer points to, in bytes.
func memory(t reflect.Type) int {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		if t.Kind() != reflect.Struct {
			return 0 // at most as large as its encoding
		}
	}
	size := int(t.Size())
	if t.Kind() != reflect.Struct || !decodesItself(t) {
		return size
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && f.Type.Kind() == reflect.Pointer {
			size += int(f.Type.Elem().Size())
		}
	}
	return size
}

func protobufNumber(tag string) (int32, bool) {
	_, rest, _ := strings.Cut(tag, ",")
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), err == nil
}

// prune removes the parts that need no check, so that checks skip them.
func (s *Shape) prune() {
	pruned := func(p part) part {
		if !p.shape.needsCheck() {
			p.shape = nil
		}
		return p
	}
	s.elem = pruned(s.elem)
	for name, p := range s.members {
		s.members[name] = pruned(p)
	}
	for number, p := range s.numbers {
		s.numbers[number] = pruned(p)
	}
	maps.DeleteFunc(s.members, func(_ string, p part) bool { return p == part{} })
	maps.DeleteFunc(s.numbers, func(_ int32, p part) bool { return p == part{} })
}

// needsCheck reports whether a shape contains a quantity, a value with a check, or a part for which a
// decoder allocates memory.
func (s *Shape) needsCheck() bool {
	hasQuantity, largest, hasCheck := s.content()
	return hasQuantity || hasCheck || largest > 0
}

// content reports whether a shape contains a quantity or a value with a check, and returns the size of its largest
// part.
func (s *Shape) content() (hasQuantity bool, largest int, hasCheck bool) {
	seen := map[*Shape]bool{}
	var visit func(p part)
	visit = func(p part) {
		largest = max(largest, p.size)
		if p.shape == nil || seen[p.shape] {
			return
		}
		seen[p.shape] = true
		hasQuantity = hasQuantity || p.shape.isQuantity
		hasCheck = hasCheck || p.shape.checkValue != nil
		visit(p.shape.elem)
		for _, member := range p.shape.members {
			visit(member)
		}
		for _, field := range p.shape.numbers {
			visit(field)
		}
	}
	visit(part{shape: s})
	return hasQuantity, largest, hasCheck
}

// member returns the part that describes a member of an object. Names are case-insensitive, as in
// encoding/json.
func (s *Shape) member(name string) part {
	switch {
	case s == nil:
		return part{}
	case s.isMap:
		return s.elem
	}
	if p, ok := s.members[name]; ok {
		return p
	}
	for known, p := range s.members {
		if strings.EqualFold(known, name) {
			return p
		}
	}
	return part{}
}

// element returns the part that describes the elements of a list.
func (s *Shape) element() part {
	if s == nil {
		return part{}
	}
	return s.elem
}
