package openapi

import (
	_ "embed"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// mergeFile is written by the generator, which documents its format. It is small and not
// compressed. Strings are therefore substrings of it, a type is found without reading the rest, and
// the data does not occupy the heap.
//
//go:embed data/merge.bin
var mergeFile string

// mergeData reads the sections of a merge file.
type mergeData struct {
	strings, types, kinds table
	text, code            string
}

// table is a section of four-byte integers.
type table string

func (t table) at(i uint32) uint32 {
	b := t[4*i:][:4]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func openMergeData(file string) mergeData {
	header := table(file)
	strings, types, kinds := header.at(0), header.at(1), header.at(2)
	rest := file[12:]
	cut := func(n uint32) table {
		part := rest[:4*n]
		rest = rest[4*n:]
		return table(part)
	}
	d := mergeData{strings: cut(strings + 1), types: cut(types + 1), kinds: cut(4 * kinds)}
	text := d.strings.at(strings)
	d.text, d.code = rest[:text], rest[text:]
	return d
}

// string returns string i, a substring of the file.
func (d *mergeData) string(i uint32) string {
	return d.text[d.strings.at(i):d.strings.at(i+1)]
}

// kind returns the index of the type of a kind, or false if the kind is unknown.
func (d *mergeData) kind(gvk schema.GroupVersionKind) (uint32, bool) {
	low, high := uint32(0), uint32(len(d.kinds)/16)
	for low < high {
		middle := (low + high) / 2
		have := d.kindAt(middle)
		switch {
		case have == gvk:
			return d.kinds.at(4*middle + 3), true
		case kindLess(have, gvk):
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

func (d *mergeData) kindAt(i uint32) schema.GroupVersionKind {
	return schema.GroupVersionKind{
		Group:   d.string(d.kinds.at(4 * i)),
		Version: d.string(d.kinds.at(4*i + 1)),
		Kind:    d.string(d.kinds.at(4*i + 2)),
	}
}

func kindLess(a, b schema.GroupVersionKind) bool {
	if a.Group != b.Group {
		return a.Group < b.Group
	}
	if a.Version != b.Version {
		return a.Version < b.Version
	}
	return a.Kind < b.Kind
}

// mergeType is a decoded type.
type mergeType struct {
	definition smd.TypeDef
	// uses are the types that the definition refers to.
	uses []uint32
}

// decode decodes type i. The strings of the result are substrings of the file. It
// panics if the file is malformed.
func (d *mergeData) decode(i uint32) *mergeType {
	t := &mergeType{}
	c := cursor{data: d, code: d.code[d.types.at(i):d.types.at(i+1)], uses: &t.uses}
	t.definition.Name = c.string()
	t.definition.Atom = c.atom()
	return t
}

// name returns the name of type i without decoding it.
func (d *mergeData) name(i uint32) string {
	c := cursor{data: d, code: d.code[d.types.at(i):d.types.at(i+1)]}
	return c.string()
}

// cursor reads the code of one type.
type cursor struct {
	data *mergeData
	code string
	uses *[]uint32
}

func (c *cursor) int() uint32 {
	var n uint32
	for i, shift := 0, 0; ; i, shift = i+1, shift+7 {
		b := c.code[i]
		n |= uint32(b&0x7f) << shift
		if b < 0x80 {
			c.code = c.code[i+1:]
			return n
		}
	}
}

func (c *cursor) string() string { return c.data.string(c.int()) }

func (c *cursor) atom() smd.Atom {
	var a smd.Atom
	bits := c.int()
	if bits&1 != 0 {
		scalar := smd.Scalar(c.string())
		a.Scalar = &scalar
	}
	if bits&2 != 0 {
		a.List = &smd.List{ElementType: c.ref(), ElementRelationship: smd.ElementRelationship(c.string())}
		for range c.int() {
			a.List.Keys = append(a.List.Keys, c.string())
		}
	}
	if bits&4 != 0 {
		a.Map = &smd.Map{}
		if n := c.int(); n > 0 {
			a.Map.Fields = make([]smd.StructField, n)
		}
		for i := range a.Map.Fields {
			f := &a.Map.Fields[i]
			f.Name, f.Type, f.Default = c.string(), c.ref(), c.fieldDefault()
		}
		a.Map.ElementType = c.ref()
		a.Map.ElementRelationship = smd.ElementRelationship(c.string())
	}
	return a
}

func (c *cursor) fieldDefault() any {
	n := c.int()
	if n == 0 {
		return nil
	}
	var value any
	if err := utiljson.Unmarshal([]byte(c.data.string(n-1)), &value); err != nil {
		panic(fmt.Sprintf("openapi: default value in merge schemas: %v", err))
	}
	return value
}

func (c *cursor) ref() smd.TypeRef {
	bits := c.int()
	r := smd.TypeRef{Nullable: bits&4 != 0}
	if bits&1 != 0 {
		i := c.int()
		name := c.data.name(i)
		r.NamedType = &name
		*c.uses = append(*c.uses, i)
	} else {
		r.Inlined = c.atom()
	}
	if bits&2 != 0 {
		relationship := smd.ElementRelationship(c.string())
		r.ElementRelationship = &relationship
	}
	return r
}
