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

// Shape contains the locations of quantities in the encodings of a Go type. A nil *Shape has none.
// It is immutable and safe for concurrent use.
type Shape struct {
	isQuantity bool
	// members are the fields of a struct by JSON name, and numbers by protobuf field number,
	// without fields that contain no quantities.
	members map[string]*Shape
	numbers map[int32]*Shape
	// elem is the shape of a list's elements, or of a map's values.
	elem  *Shape
	isMap bool
}

//nolint:gochecknoglobals // follows from types alone; no server could see anything of another
var shapes sync.Map // of *Shape by reflect.Type

// ShapeOf returns the shape of the type that v, a pointer, points to.
func ShapeOf(v any) *Shape {
	t := reflect.TypeOf(v).Elem()
	if made, ok := shapes.Load(t); ok {
		return made.(*Shape)
	}
	c := compiler{made: map[reflect.Type]*Shape{}}
	made := c.shape(t)
	for _, s := range c.made {
		s.prune()
	}
	if !made.leads(map[*Shape]bool{}) {
		made = nil
	}
	kept, _ := shapes.LoadOrStore(t, made)
	return kept.(*Shape)
}

// compiler makes the shape of one type and all that it consists of.
type compiler struct{ made map[reflect.Type]*Shape }

func (c compiler) shape(t reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if made, ok := c.made[t]; ok {
		return made
	}
	s := &Shape{}
	c.made[t] = s // types may contain themselves
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		s.isQuantity = true
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		// It has a form of its own, without amounts.
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		s.elem = c.shape(t.Elem())
	case t.Kind() == reflect.Map:
		s.elem, s.isMap = c.shape(t.Elem()), true
	case t.Kind() == reflect.Struct:
		s.members, s.numbers = map[string]*Shape{}, map[int32]*Shape{}
		c.fields(s, t)
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
		below := c.shape(f.Type)
		switch {
		case f.Anonymous && name == "":
			maps.Copy(s.members, below.members)
		case name == "":
			s.members[f.Name] = below
		default:
			s.members[name] = below
		}
		if number, ok := protobufNumber(f.Tag.Get("protobuf")); ok {
			s.numbers[number] = below
		}
	}
}

func protobufNumber(tag string) (int32, bool) {
	_, rest, _ := strings.Cut(tag, ",")
	number, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(number, 10, 32)
	return int32(n), err == nil
}

// prune removes shapes without quantities, so that they are skipped.
func (s *Shape) prune() {
	without := func(below *Shape) bool { return !below.leads(map[*Shape]bool{}) }
	maps.DeleteFunc(s.members, func(_ string, below *Shape) bool { return without(below) })
	maps.DeleteFunc(s.numbers, func(_ int32, below *Shape) bool { return without(below) })
	if without(s.elem) {
		s.elem = nil
	}
}

// leads reports whether there are amounts in a shape.
func (s *Shape) leads(seen map[*Shape]bool) bool {
	if s == nil || seen[s] {
		return false
	}
	seen[s] = true
	if s.isQuantity || s.elem.leads(seen) {
		return true
	}
	for _, member := range s.members {
		if member.leads(seen) {
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
	if below := s.members[name]; below != nil {
		return below
	}
	for known, below := range s.members {
		if strings.EqualFold(known, name) {
			return below
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
