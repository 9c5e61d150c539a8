package typed

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/sets"
)

// kind is the CEL kind of a type.
type kind uint8

const (
	kindObject  kind = iota // members by name
	kindMapping             // members with arbitrary names, all of the same type
	kindList
	kindString
	kindBytes
	kindDuration
	kindDate
	kindDateTime
	kindBool
	kindNumber
	kindInteger
	kindIntOrString
)

// Type is the CEL type for the values of a schema. It is immutable and safe for concurrent use. A Builder
// returns the same pointer for schemas that are equivalent for expressions and have the same sizes.
type Type struct {
	kind     kind
	nullable bool
	listType string
	// keys contains the names of the key members of a list map.
	keys []string
	// elem is the type of the elements of lists and mappings.
	elem *Type
	// fields contains the accessible members of an object, keyed by their names in documents. escaped maps CEL
	// names to the names in documents, for names that differ.
	fields  map[string]*Type
	escaped map[string]string
	// inaccessible contains the members of an object whose names cannot be expressed in CEL.
	inaccessible map[string]*Type
	// maxElements is the maximum number of bytes, elements or members in a value; 0 for types without a length.
	maxElements int64
	// minSize is the minimum size of a value's JSON encoding, in bytes.
	minSize int64
	id      int
	name    string // for objects only
}

// Items returns the type of the elements of a list or mapping, or nil for other types.
func (t *Type) Items() *Type { return t.elem }

// Field returns the type of the member of an object with the given name in documents. It returns nil if there
// is no such member or if expressions cannot access it.
func (t *Type) Field(name string) *Type { return t.fields[name] }

// Member is like Field, but also returns the types of members whose names cannot be expressed in CEL. Only the rules of
// such a member can access its values.
func (t *Type) Member(name string) *Type {
	if member := t.fields[name]; member != nil {
		return member
	}
	return t.inaccessible[name]
}

// MaxCount returns the maximum number of values of the type that an object of the size
// environment.MaxRequestSize can contain.
func (t *Type) MaxCount() uint64 { return uint64(maxRequestSize / (t.minSize + 1)) }

// Builder creates types from schemas. The zero value is ready to use. It is not safe for concurrent
// use.
type Builder struct {
	types map[typeKey]*Type
}

// typeKey contains the properties in which types can differ.
type typeKey struct {
	kind              kind
	nullable          bool
	listType, keys    string
	elem              *Type
	fields            string
	maxElements, size int64
}

// Build returns the type for the values of a schema, or nil if expressions cannot access such values. If
// resource is true, the schema describes a resource, in which apiVersion, kind, metadata.name and
// metadata.generateName are always accessible. The schema must be structural. It is not retained.
func (m *Builder) Build(s *apiextensions.JSONSchemaProps, resource bool) *Type {
	if s.XIntOrString {
		return m.intern(&Type{kind: kindIntOrString, nullable: s.Nullable, minSize: 1, maxElements: maxStringLength(s)})
	}
	switch s.Type {
	case "array":
		return m.list(s)
	case "object":
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			return m.mapping(s)
		}
		return m.object(s, resource)
	}
	return m.scalar(s)
}

func (m *Builder) list(s *apiextensions.JSONSchemaProps) *Type {
	if s.Items == nil || s.Items.Schema == nil {
		return nil
	}
	elem := m.Build(s.Items.Schema, s.Items.Schema.XEmbeddedResource)
	if elem == nil {
		return nil
	}
	t := &Type{kind: kindList, nullable: s.Nullable, elem: elem, keys: s.XListMapKeys, minSize: minListSize, maxElements: maxItems(elem)}
	if s.XListType != nil && *s.XListType != "atomic" {
		t.listType = *s.XListType
	}
	if s.MaxItems != nil {
		t.maxElements = max(0, *s.MaxItems)
	}
	return m.intern(t)
}

func (m *Builder) mapping(s *apiextensions.JSONSchemaProps) *Type {
	values := s.AdditionalProperties.Schema
	elem := m.Build(values, values.XEmbeddedResource)
	if elem == nil {
		return nil
	}
	t := &Type{kind: kindMapping, nullable: s.Nullable, elem: elem, minSize: minListSize, maxElements: maxMembers(elem)}
	if s.MaxProperties != nil {
		t.maxElements = max(0, *s.MaxProperties)
	}
	return m.intern(t)
}

func (m *Builder) object(s *apiextensions.JSONSchemaProps, resource bool) *Type {
	members := s.Properties
	if resource {
		members = withTypeAndMetadata(members)
	}
	t := &Type{kind: kindObject, nullable: s.Nullable, fields: make(map[string]*Type, len(members)), minSize: minListSize}
	required := sets.New(s.Required...)
	member := new(apiextensions.JSONSchemaProps) // reused, because it is large
	for _, name := range slices.Sorted(maps.Keys(members)) {
		*member = members[name]
		made := m.Build(member, member.XEmbeddedResource)
		if made == nil {
			continue
		}
		// A request may omit members that have defaults.
		if required.Has(name) && member.Default == nil {
			t.minSize += int64(len(name)) + made.minSize + 4
		}
		escaped, ok := Escape(name)
		if !ok {
			if t.inaccessible == nil {
				t.inaccessible = map[string]*Type{}
			}
			t.inaccessible[name] = made
			continue
		}
		t.fields[name] = made
		if escaped != name {
			if t.escaped == nil {
				t.escaped = map[string]string{}
			}
			t.escaped[escaped] = name
		}
	}
	return m.intern(t)
}

// withTypeAndMetadata adds the members that every resource has. If the schema already contains all of them, it
// returns the schema's own map.
func withTypeAndMetadata(members map[string]apiextensions.JSONSchemaProps) map[string]apiextensions.JSONSchemaProps {
	text := apiextensions.JSONSchemaProps{Type: "string"}
	metadata := members["metadata"]
	if members["kind"].Type == "string" && members["apiVersion"].Type == "string" && metadata.Type == "object" &&
		metadata.Properties["name"].Type == "string" && metadata.Properties["generateName"].Type == "string" {
		return members
	}
	added := make(map[string]apiextensions.JSONSchemaProps, len(members)+3)
	maps.Copy(added, members)
	added["kind"], added["apiVersion"] = text, text
	added["metadata"] = apiextensions.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"name": text, "generateName": text},
	}
	return added
}

func (m *Builder) scalar(s *apiextensions.JSONSchemaProps) *Type {
	t := &Type{nullable: s.Nullable}
	switch s.Type {
	case "string":
		t.kind, t.minSize = kindString, minStringSize
		switch s.Format {
		case "byte":
			t.kind = kindBytes
		case "duration":
			t.kind, t.minSize = kindDuration, minDurationSize
		case "date":
			t.kind, t.minSize = kindDate, dateSize
		case "date-time":
			t.kind, t.minSize = kindDateTime, minDateTimeSize
		}
		t.maxElements = maxStringLength(s)
	case "boolean":
		t.kind, t.minSize = kindBool, minBoolSize
	case "number":
		t.kind, t.minSize = kindNumber, minNumberSize
	case "integer":
		t.kind, t.minSize = kindInteger, minNumberSize
	default:
		return nil
	}
	return m.intern(t)
}

// intern returns an existing type that is equal to t, or t if there is none.
func (m *Builder) intern(t *Type) *Type {
	like := typeKey{
		kind: t.kind, nullable: t.nullable, listType: t.listType, keys: strings.Join(t.keys, "\x00"), elem: t.elem,
		fields: t.describeFields(), maxElements: t.maxElements, size: t.minSize,
	}
	if have := m.types[like]; have != nil {
		return have
	}
	if m.types == nil {
		m.types = map[typeKey]*Type{}
	}
	t.id = len(m.types) + 1
	if t.kind == kindObject {
		sum := fnv.New32a()
		sum.Write([]byte(like.fields))
		t.name = anonymousName + strconv.FormatUint(uint64(sum.Sum32()), 10)
	}
	m.types[like] = t
	return t
}

// describeFields returns the names of an object's members and the IDs of their types, as a string that can be
// compared.
func (t *Type) describeFields() string {
	if len(t.fields) == 0 && len(t.inaccessible) == 0 {
		return ""
	}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(t.fields)) {
		text = strconv.AppendInt(append(append(text, name...), ' '), int64(t.fields[name].id), 10)
		text = append(text, ' ')
	}
	for _, name := range slices.Sorted(maps.Keys(t.inaccessible)) {
		text = strconv.AppendInt(append(strconv.AppendQuote(text, name), ' '), int64(t.inaccessible[name].id), 10)
		text = append(text, ' ')
	}
	return string(text)
}
