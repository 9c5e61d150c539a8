package quantity

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Shape describes where the encodings of a Go type contain quantities and, in protobuf, maps. A nil
// *Shape means that there are none; its methods return nil. It is immutable and safe for concurrent use.
type Shape struct {
	isQuantity bool
	// members are the fields of a struct by JSON name, without fields that contain no quantities.
	// numbers are the fields by protobuf field number, without fields that contain neither
	// quantities nor maps.
	members map[string]*Shape
	numbers map[int32]*Shape
	// elem is the shape of a list's elements, or of a map's values.
	elem  *Shape
	isMap bool
	// containsQuantity is set if JSON of the type can contain quantities. Only ShapeOf sets it.
	containsQuantity bool
}

//nolint:gochecknoglobals // a cache; shapes depend on their types only
var shapes sync.Map // of *Shape by reflect.Type

// ShapeOf returns the shape of the type that v, a pointer, points to. It returns nil if the type
// contains neither quantities nor maps. Shapes are cached.
func ShapeOf(v any) *Shape {
	t := reflect.TypeOf(v).Elem()
	if made, ok := shapes.Load(t); ok {
		return made.(*Shape)
	}
	c := compiler{shapes: map[reflect.Type]*Shape{}}
	made := c.shape(t)
	for _, s := range c.shapes {
		s.prune()
	}
	made.containsQuantity = made.hasQuantity(map[*Shape]bool{})
	if !made.containsQuantity && !made.hasMapOrQuantity(map[*Shape]bool{}) {
		made = nil
	}
	kept, _ := shapes.LoadOrStore(t, made)
	return kept.(*Shape)
}

// compiler creates the shape of a type and of the types in it.
type compiler struct{ shapes map[reflect.Type]*Shape }

func (c compiler) shape(t reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if made, ok := c.shapes[t]; ok {
		return made
	}
	s := &Shape{}
	c.shapes[t] = s // set early, because types may be recursive
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		s.isQuantity = true
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		s.elem = c.shape(t.Elem())
	case t.Kind() == reflect.Map:
		s.elem, s.isMap = c.shape(t.Elem()), true
	case t.Kind() == reflect.Struct:
		s.members, s.numbers = map[string]*Shape{}, map[int32]*Shape{}
		c.fields(s, t)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		s.members = nil // types with their own JSON decoder contain no quantities
	}
	return s
}

func (c compiler) fields(s *Shape, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		sub := c.shape(f.Type)
		switch {
		case f.Anonymous && name == "":
			maps.Copy(s.members, sub.members)
		case name == "":
			s.members[f.Name] = sub
		default:
			s.members[name] = sub
		}
		if number, ok := protobufNumber(f.Tag.Get("protobuf")); ok {
			s.numbers[number] = sub
		}
	}
}

func protobufNumber(tag string) (int32, bool) {
	_, rest, _ := strings.Cut(tag, ",")
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), err == nil
}

// prune removes the fields that need no check, so that checks skip them.
func (s *Shape) prune() {
	maps.DeleteFunc(s.members, func(_ string, sub *Shape) bool { return !sub.hasQuantity(map[*Shape]bool{}) })
	maps.DeleteFunc(s.numbers, func(_ int32, sub *Shape) bool { return !sub.hasMapOrQuantity(map[*Shape]bool{}) })
}

// hasQuantity reports whether a shape contains a quantity. seen contains the visited shapes.
func (s *Shape) hasQuantity(seen map[*Shape]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if s.isQuantity || s.elem.hasQuantity(seen) {
		return true
	}
	for _, member := range s.members {
		if member.hasQuantity(seen) {
			return true
		}
	}
	return false
}

// hasMapOrQuantity reports whether the protobuf encoding of a shape contains a map or a quantity. seen contains the
// visited shapes.
func (s *Shape) hasMapOrQuantity(seen map[*Shape]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if s.isQuantity || s.isMap || s.elem.hasMapOrQuantity(seen) {
		return true
	}
	for _, sub := range s.numbers {
		if sub.hasMapOrQuantity(seen) {
			return true
		}
	}
	return false
}

// member returns the shape of a member of an object. Names are case-insensitive, as in
// encoding/json.
func (s *Shape) member(name string) *Shape {
	if s == nil || s.isMap {
		return s.elements()
	}
	if sub := s.members[name]; sub != nil {
		return sub
	}
	for known, sub := range s.members {
		if strings.EqualFold(known, name) {
			return sub
		}
	}
	return nil
}

// elements returns the shape of a list's elements, or of a map's values.
func (s *Shape) elements() *Shape {
	if s == nil {
		return nil
	}
	return s.elem
}
