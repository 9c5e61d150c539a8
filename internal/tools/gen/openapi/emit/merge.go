package main

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// mergeEncoder encodes the file merge.bin, which consists of the following sections. Integers are
// little-endian.
//
//	header   uint32 × 3: the number of strings (S), of types (T), of kinds (K)
//	strings  uint32 × S+1: start of each string in the text section
//	types    uint32 × T+1: start of each type in the code section
//	kinds    uint32 × 4 × K: group, version, kind (strings), type; sorted by these strings
//	text     the concatenated strings
//	code     the concatenated types
//
// In the code section, integers are unsigned varints:
//
//	type      = name, atom
//	atom      = bits (1 scalar, 2 list, 4 map), followed by the parts whose bits are set, in this order
//	scalar    = string
//	list      = ref, relationship, number of keys, keys (strings)
//	map       = number of fields, fields, ref (of the elements), relationship
//	field     = name, ref, default (0: none; otherwise 1 + the number of a string with JSON)
//	ref       = bits (1 named, 2 relationship, 4 nullable),
//	            followed by the type if it is named, otherwise by an atom; then the relationship if its bit is set
//
// A relationship is a string, which may be empty.
type mergeEncoder struct {
	strings map[string]uint32
	starts  []uint32
	text    []byte
	types   map[string]uint32
	code    []byte
}

type mergeKind struct {
	gvk   schema.GroupVersionKind
	model string
}

func encodeMerge(m *models) ([]byte, error) {
	converted, err := schemaconv.ToSchemaFromOpenAPI(m.v3, false)
	if err != nil {
		return nil, fmt.Errorf("convert definitions: %w", err)
	}
	kinds := mergeKinds(m)
	types := reachable(converted.Types, kinds)
	e := &mergeEncoder{strings: map[string]uint32{}, starts: []uint32{0}, types: map[string]uint32{}}
	for i, t := range types {
		e.types[t.Name] = uint32(i)
	}
	var index, kindTable []uint32
	for _, t := range types {
		index = append(index, uint32(len(e.code)))
		e.string(t.Name)
		if err := e.atom(t.Atom); err != nil {
			return nil, fmt.Errorf("type %s: %w", t.Name, err)
		}
	}
	index = append(index, uint32(len(e.code)))
	for _, k := range kinds {
		kindTable = append(kindTable, e.intern(k.gvk.Group), e.intern(k.gvk.Version), e.intern(k.gvk.Kind), e.types[k.model])
	}
	words := []uint32{uint32(len(e.starts) - 1), uint32(len(types)), uint32(len(kinds))}
	words = slices.Concat(words, e.starts, index, kindTable)
	out := make([]byte, 0, 4*len(words)+len(e.text)+len(e.code))
	for _, w := range words {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return append(append(out, e.text...), e.code...), nil
}

// mergeKinds returns the kinds that support server-side apply, with their models. It omits lists and the kinds
// of the meta package, which never have managed fields.
func mergeKinds(m *models) []mergeKind {
	var kinds []mergeKind
	for name, list := range m.kinds {
		_, known := m.v3[name]
		for _, gvk := range list {
			if known && !strings.HasPrefix(name, "io.k8s.apimachinery.") && !strings.HasSuffix(gvk.Kind, "List") {
				kinds = append(kinds, mergeKind{gvk, name})
			}
		}
	}
	slices.SortFunc(kinds, func(a, b mergeKind) int {
		return cmp.Or(cmp.Compare(a.gvk.Group, b.gvk.Group), cmp.Compare(a.gvk.Version, b.gvk.Version), cmp.Compare(a.gvk.Kind, b.gvk.Kind))
	})
	return kinds
}

// reachable returns the types of the given kinds and all types to which they refer directly or indirectly,
// sorted by name.
func reachable(all []smd.TypeDef, kinds []mergeKind) []smd.TypeDef {
	byName := map[string]smd.TypeDef{}
	for _, t := range all {
		byName[t.Name] = t
	}
	seen := map[string]bool{}
	var types []smd.TypeDef
	var visitAtom func(smd.Atom)
	visitRef := func(r smd.TypeRef) {
		if r.NamedType == nil {
			visitAtom(r.Inlined)
			return
		}
		if t, ok := byName[*r.NamedType]; ok && !seen[t.Name] {
			seen[t.Name] = true
			types = append(types, t)
			visitAtom(t.Atom)
		}
	}
	visitAtom = func(a smd.Atom) {
		if a.List != nil {
			visitRef(a.List.ElementType)
		}
		if a.Map != nil {
			visitRef(a.Map.ElementType)
			for _, f := range a.Map.Fields {
				visitRef(f.Type)
			}
		}
	}
	for _, k := range kinds {
		visitRef(smd.TypeRef{NamedType: &k.model})
	}
	slices.SortFunc(types, func(a, b smd.TypeDef) int { return cmp.Compare(a.Name, b.Name) })
	return types
}

func (e *mergeEncoder) intern(s string) uint32 {
	n, ok := e.strings[s]
	if !ok {
		n = uint32(len(e.strings))
		e.strings[s] = n
		e.text = append(e.text, s...)
		e.starts = append(e.starts, uint32(len(e.text)))
	}
	return n
}

func (e *mergeEncoder) int(n int)       { e.code = binary.AppendUvarint(e.code, uint64(n)) }
func (e *mergeEncoder) string(s string) { e.int(int(e.intern(s))) }

func (e *mergeEncoder) atom(a smd.Atom) error {
	bits := 0
	if a.Scalar != nil {
		bits |= 1
	}
	if a.List != nil {
		bits |= 2
	}
	if a.Map != nil {
		bits |= 4
	}
	e.int(bits)
	if a.Scalar != nil {
		e.string(string(*a.Scalar))
	}
	if a.List != nil {
		if err := e.list(a.List); err != nil {
			return err
		}
	}
	if a.Map != nil {
		return e.mapping(a.Map)
	}
	return nil
}

func (e *mergeEncoder) list(l *smd.List) error {
	if err := e.ref(l.ElementType); err != nil {
		return err
	}
	e.string(string(l.ElementRelationship))
	e.int(len(l.Keys))
	for _, key := range l.Keys {
		e.string(key)
	}
	return nil
}

func (e *mergeEncoder) mapping(m *smd.Map) error {
	if len(m.Unions) > 0 {
		return fmt.Errorf("unions have no encoding")
	}
	// The converter that created the map returns fields in random order.
	fields := slices.SortedFunc(slices.Values(m.Fields), func(a, b smd.StructField) int { return cmp.Compare(a.Name, b.Name) })
	e.int(len(fields))
	for _, f := range fields {
		e.string(f.Name)
		if err := e.ref(f.Type); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		if f.Default == nil {
			e.int(0)
			continue
		}
		data, err := json.Marshal(f.Default)
		if err != nil {
			return fmt.Errorf("default of field %s: %w", f.Name, err)
		}
		e.int(int(e.intern(string(data))) + 1)
	}
	if err := e.ref(m.ElementType); err != nil {
		return err
	}
	e.string(string(m.ElementRelationship))
	return nil
}

func (e *mergeEncoder) ref(r smd.TypeRef) error {
	bits := 0
	if r.NamedType != nil {
		bits |= 1
	}
	if r.ElementRelationship != nil {
		bits |= 2
	}
	if r.Nullable {
		bits |= 4
	}
	e.int(bits)
	if r.NamedType != nil {
		n, ok := e.types[*r.NamedType]
		if !ok {
			return fmt.Errorf("no type %s", *r.NamedType)
		}
		e.int(int(n))
	} else if err := e.atom(r.Inlined); err != nil {
		return err
	}
	if r.ElementRelationship != nil {
		e.string(string(*r.ElementRelationship))
	}
	return nil
}
