package typed

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// kind is the kind of a type's values.
type kind uint8

const (
	kindObject  kind = iota // members by name
	kindMapping             // members of one type, under any name
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

// Type is the CEL type of a schema's values. It is immutable and safe for concurrent use.
// Types from one Maker that are equal for expressions, sizes included, are the same
// pointer.
type Type struct {
	kind     kind
	nullable bool
	listType string
	// keys are the key members of a list map.
	keys []string
	// elem is the type of the elements of lists and mappings.
	elem *Type
	// fields are the accessible members of an object, by their names in documents. escaped maps CEL
	// names to them if they differ.
	fields  map[string]*Type
	escaped map[string]string
	// maxElements bounds the length of a value in characters, elements or members; 0
	// for values without a length.
	maxElements int64
	// minSize is the minimum size of a value in JSON, in bytes.
	minSize int64
	id      int
	name    string // of objects
}

// Items returns the type of the elements of lists and mappings, nil for others.
func (t *Type) Items() *Type { return t.elem }

// Field returns the type of a member of an object, by its name in documents; nil if it is
// not accessible.
func (t *Type) Field(name string) *Type { return t.fields[name] }

// MaxCount returns the maximum number of values of the type in an object of
// MaxRequestSize.
func (t *Type) MaxCount() uint64 { return uint64(maxRequestSize / (t.minSize + 1)) }

// Maker makes types. It is not safe for concurrent use.
type Maker struct {
	made map[shape]*Type
}

// shape identifies a type.
type shape struct {
	kind              kind
	nullable          bool
	listType, keys    string
	elem              *Type
	fields            string
	maxElements, size int64
}

// Make returns the type of a schema's values; nil if they are not accessible. For a resource,
// apiVersion, kind, metadata.name and metadata.generateName are always accessible.
func (m *Maker) Make(s *apiextensions.JSONSchemaProps, resource bool) *Type {
	if s.XIntOrString {
		return m.share(&Type{kind: kindIntOrString, nullable: s.Nullable, minSize: 1, maxElements: stringLength(s)})
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

func (m *Maker) list(s *apiextensions.JSONSchemaProps) *Type {
	if s.Items == nil || s.Items.Schema == nil {
		return nil
	}
	elem := m.Make(s.Items.Schema, s.Items.Schema.XEmbeddedResource)
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
	return m.share(t)
}

func (m *Maker) mapping(s *apiextensions.JSONSchemaProps) *Type {
	values := s.AdditionalProperties.Schema
	elem := m.Make(values, values.XEmbeddedResource)
	if elem == nil {
		return nil
	}
	t := &Type{kind: kindMapping, nullable: s.Nullable, elem: elem, minSize: minListSize, maxElements: maxMembers(elem)}
	if s.MaxProperties != nil {
		t.maxElements = max(0, *s.MaxProperties)
	}
	return m.share(t)
}

func (m *Maker) object(s *apiextensions.JSONSchemaProps, resource bool) *Type {
	members := s.Properties
	if resource {
		members = withTypeAndMetadata(members)
	}
	t := &Type{kind: kindObject, nullable: s.Nullable, fields: make(map[string]*Type, len(members)), minSize: minListSize}
	member := new(apiextensions.JSONSchemaProps) // one for all: it is large
	for _, name := range slices.Sorted(maps.Keys(members)) {
		*member = members[name]
		made := m.Make(member, member.XEmbeddedResource)
		if made == nil {
			continue
		}
		// Defaults are not sent: they do not make a request longer.
		if slices.Contains(s.Required, name) && member.Default == nil {
			t.minSize += int64(len(name)) + made.minSize + 4
		}
		escaped, ok := Escape(name)
		if !ok {
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
	return m.share(t)
}

// withTypeAndMetadata adds the members of every resource. It uses those of the schema if it has
// all.
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

func (m *Maker) scalar(s *apiextensions.JSONSchemaProps) *Type {
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
		t.maxElements = stringLength(s)
	case "boolean":
		t.kind, t.minSize = kindBool, minBoolSize
	case "number":
		t.kind, t.minSize = kindNumber, minNumberSize
	case "integer":
		t.kind, t.minSize = kindInteger, minNumberSize
	default:
		return nil
	}
	return m.share(t)
}

// share returns the type like t that was made first.
func (m *Maker) share(t *Type) *Type {
	like := shape{
		kind: t.kind, nullable: t.nullable, listType: t.listType, keys: strings.Join(t.keys, "\x00"), elem: t.elem,
		fields: t.describeFields(), maxElements: t.maxElements, size: t.minSize,
	}
	if have := m.made[like]; have != nil {
		return have
	}
	if m.made == nil {
		m.made = map[shape]*Type{}
	}
	t.id = len(m.made) + 1
	if t.kind == kindObject {
		sum := fnv.New32a()
		sum.Write([]byte(like.fields))
		t.name = anonymous + strconv.FormatUint(uint64(sum.Sum32()), 10)
	}
	m.made[like] = t
	return t
}

// describeFields names the fields of an object and their types.
func (t *Type) describeFields() string {
	if len(t.fields) == 0 {
		return ""
	}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(t.fields)) {
		text = strconv.AppendInt(append(append(text, name...), ' '), int64(t.fields[name].id), 10)
		text = append(text, ' ')
	}
	return string(text)
}
