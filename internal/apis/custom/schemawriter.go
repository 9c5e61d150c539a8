package custom

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// schemaWriter converts structural schemas to the OpenAPI schemas that clients support. It makes one
// pass over the JSON and copies unchanged parts.
type schemaWriter struct {
	target schemaTarget
	// rootMembers contains the properties apiVersion, kind and metadata of resources, and embeddedMembers those
	// of embedded resources. Both are encoded as members of a JSON object, without the braces.
	rootMembers, embeddedMembers []byte

	in  *jsonplan.Cursor
	out []byte
}

func newSchemaWriter(target schemaTarget) *schemaWriter {
	types := metav1.TypeMeta{}.SwaggerDoc()
	metadata := reference("Standard object's metadata. More info: "+conventions+"#metadata", metaModels+"ObjectMeta", target)
	return &schemaWriter{
		target: target,
		rootMembers: membersOf(map[string]any{
			"apiVersion": property("string", types["apiVersion"]), "kind": property("string", types["kind"]), "metadata": metadata,
		}),
		embeddedMembers: membersOf(map[string]any{
			"apiVersion": property("string", "apiVersion defines the versioned schema of this representation of an object. More info: "+conventions+"#resources"),
			"kind":       property("string", "kind is a string value representing the type of this object. In CamelCase. More info: "+conventions+"#types-kinds"),
			"metadata":   metadata,
		}),
	}
}

// membersOf returns the members of an object as JSON, without its braces.
func membersOf(object map[string]any) []byte {
	encoded, err := jsonplan.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("custom: encode the common schema: %v", err))
	}
	return encoded[1 : len(encoded)-1]
}

// root returns the schema of a resource at offset at of in. It adds the members of the JSON object more. In v2,
// the schema of a resource that preserves unknown fields contains only the type, because otherwise kubectl
// would reject all fields that are not in the schema. The caller owns the result.
func (w *schemaWriter) root(in *jsonplan.Cursor, at int, preservesUnknown bool, more []byte) ([]byte, error) {
	w.in, w.out = in, w.out[:0]
	s := openSchema{members: w.rootMembers}
	if w.open(&s, at) == jsonplan.Invalid {
		return nil, errors.New("the schema is not valid JSON")
	}
	switch {
	case w.target == v2Target && (preservesUnknown || s.preservesUnknown):
		w.out = append(w.out[:0], `,"type":"object"`...)
	case !s.has(propertiesKeyword):
		w.withMembers(&s, w.rootMembers)
	}
	w.out = append(w.out, ',')
	w.out = append(w.out, more[1:len(more)-1]...)
	w.close(&s)
	return bytes.Clone(w.out), nil
}

// keyword is a keyword that may have to be removed after it was written.
type keyword int

const (
	typeKeyword keyword = iota
	itemsKeyword
	propertiesKeyword
	additionalKeyword
	anyOfKeyword
	requiredKeyword
	nullableKeyword
	keywords
)

func keywordOf(name string) (keyword, bool) {
	switch name {
	case "type":
		return typeKeyword, true
	case "items":
		return itemsKeyword, true
	case "properties":
		return propertiesKeyword, true
	case "additionalProperties":
		return additionalKeyword, true
	case "anyOf":
		return anyOfKeyword, true
	case "required":
		return requiredKeyword, true
	case "nullable":
		return nullableKeyword, true
	}
	return 0, false
}

// openSchema is a schema that is being written. In the output, a comma precedes each of its members.
type openSchema struct {
	start int
	// members contains the properties that replace the properties with the same names in the schema.
	members []byte
	// spans contains, for each keyword, the offsets of its member in the output. They are 0 if the output does
	// not have the member.
	spans [keywords]struct{ from, to int }
	// The values of the keywords with these meanings in this schema.
	intOrString, embedded, nullable, preservesUnknown bool
	typeName                                          string
	// nullableMembers contains the properties that may be null. additionalNullable is set if
	// additionalProperties may be null.
	nullableMembers    []string
	additionalNullable bool
}

func (s *openSchema) has(k keyword) bool { return s.spans[k].to > 0 }

// schema writes the schema at offset i, which may also be a boolean or a list. It returns the end offset of the
// schema and whether the schema is nullable.
func (w *schemaWriter) schema(i int) (end int, nullable bool) {
	if w.in.At(i) != '{' {
		return w.copy(i), false
	}
	var s openSchema
	end = w.open(&s, i)
	w.close(&s)
	return end, s.nullable
}

func (w *schemaWriter) copy(i int) int {
	end := w.in.Skip(i)
	if end != jsonplan.Invalid {
		w.out = append(w.out, w.in.Raw(i, end)...)
	}
	return end
}

// open writes the members of the schema at offset i and adapts them. It returns the end offset of the schema.
func (w *schemaWriter) open(s *openSchema, i int) (end int) {
	s.start = len(w.out)
	i, more := w.in.Enter(i)
	for more {
		name, at := w.in.Name(i)
		if at == jsonplan.Invalid {
			return at
		}
		from := len(w.out)
		i = w.member(s, name, i, at)
		if k, ok := keywordOf(name); ok {
			s.spans[k].from, s.spans[k].to = from, len(w.out)
		}
		i, more = w.in.Next(i, '}')
	}
	if i != jsonplan.Invalid {
		w.adapt(s)
	}
	return i
}

// member writes a member with its name at offset i and its value at offset at.
func (w *schemaWriter) member(s *openSchema, name string, i, at int) int {
	isTrue := w.in.At(at) == 't'
	switch name {
	case "externalDocs":
		return w.in.Skip(at)
	case "default":
		if w.target == v2Target {
			return w.in.Skip(at)
		}
	case "allOf", "anyOf", "oneOf", "not":
		if w.target == v2Target {
			return w.in.Skip(at)
		}
	case "x-kubernetes-int-or-string":
		s.intOrString = isTrue
	case "x-kubernetes-embedded-resource":
		s.embedded = isTrue
	case "x-kubernetes-preserve-unknown-fields":
		s.preservesUnknown = isTrue
	case "nullable":
		s.nullable = isTrue
	case "type":
		s.typeName, _ = w.in.Text(at)
	}
	if w.target == mergeTarget && !affectsMerge(name) {
		return w.in.Skip(at)
	}
	w.out = append(append(w.out, ','), w.in.Raw(i, at)...)
	switch name {
	case "properties":
		return w.properties(s, at)
	case "items":
		end, _ := w.schema(at)
		return end
	case "additionalProperties":
		end, nullable := w.schema(at)
		s.additionalNullable = nullable
		return end
	}
	return w.copy(at)
}

// affectsMerge reports whether a keyword affects server-side apply. Descriptions and constraints do not affect
// it, but make up most of the size of a schema.
func affectsMerge(name string) bool {
	switch name {
	case "type", "format", "nullable", "default", "properties", "additionalProperties", "items", "x-kubernetes-list-type",
		"x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields":
		return true
	}
	return false
}

// properties writes the properties at offset i. s.members replace apiVersion, kind and metadata.
func (w *schemaWriter) properties(s *openSchema, i int) int {
	members := s.members
	if w.in.At(i) != '{' {
		w.out = append(append(append(w.out, '{'), members...), '}')
		return w.in.Skip(i)
	}
	w.out = append(append(w.out, '{'), members...)
	i, more := w.in.Enter(i)
	first := len(members) == 0
	for more {
		name, at := w.in.Name(i)
		switch {
		case at == jsonplan.Invalid:
			return at
		case len(members) > 0 && isTypeOrMetadata(name):
			at = w.in.Skip(at)
		default:
			if !first {
				w.out = append(w.out, ',')
			}
			w.out = append(w.out, w.in.Raw(i, at)...)
			var nullable bool
			if at, nullable = w.schema(at); nullable {
				s.nullableMembers = append(s.nullableMembers, name)
			}
			first = false
		}
		i, more = w.in.Next(at, '}')
	}
	w.out = append(w.out, '}')
	return i
}

// isTypeOrMetadata reports whether name is a property that all resources have.
func isTypeOrMetadata(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}

// adapt rewrites a schema according to its extensions.
func (w *schemaWriter) adapt(s *openSchema) {
	if s.intOrString && w.target != v2Target {
		w.cut(s, typeKeyword)
		if w.target == v3Target && !s.has(anyOfKeyword) {
			w.out = append(w.out, `,"anyOf":[{"type":"integer"},{"type":"string"}]`...)
		}
	}
	if w.target == v2Target {
		w.adaptV2(s)
	}
	// In v2, kubectl would reject unknown fields if there are properties.
	if s.embedded && !(s.preservesUnknown && w.target == v2Target) {
		if s.members == nil {
			w.withMembers(s, w.embeddedMembers)
		}
		w.require(s, nil, "kind", "apiVersion")
	}
}

// adaptV2 removes keywords that kubectl does not support in v2: v2 has no null, and kubectl rejects
// unknown fields of objects with properties. kube-apiserver removes the same keywords.
func (w *schemaWriter) adaptV2(s *openSchema) {
	if s.nullable || s.preservesUnknown {
		w.cut(s, itemsKeyword)
		if s.members == nil {
			w.cut(s, propertiesKeyword)
			s.nullableMembers = nil
		}
	}
	isList := s.typeName == "array" && !s.has(itemsKeyword)
	if s.nullable || isList || s.preservesUnknown && s.typeName == "object" {
		w.cut(s, typeKeyword)
	}
	if s.nullable {
		w.cut(s, nullableKeyword)
	}
	switch {
	case s.additionalNullable:
		w.cut(s, requiredKeyword)
	case len(s.nullableMembers) > 0 && s.has(requiredKeyword):
		w.require(s, s.nullableMembers)
	}
}

// close ends a schema. The comma before its first member becomes its brace.
func (w *schemaWriter) close(s *openSchema) {
	if len(w.out) == s.start {
		w.out = append(w.out, ',')
	}
	w.out[s.start] = '{'
	w.out = append(w.out, '}')
}

// cut removes a member from the output and returns it, including the comma before it. It returns nil
// if the schema does not have the member.
func (w *schemaWriter) cut(s *openSchema, k keyword) []byte {
	if !s.has(k) {
		return nil
	}
	from, to := s.spans[k].from, s.spans[k].to
	was := bytes.Clone(w.out[from:to])
	w.out = slices.Delete(w.out, from, to)
	s.spans[k].from, s.spans[k].to = 0, 0
	for other := range s.spans {
		if s.spans[other].from > from {
			s.spans[other].from -= to - from
			s.spans[other].to -= to - from
		}
	}
	return was
}

// withMembers replaces the properties apiVersion, kind and metadata of a schema with members.
func (w *schemaWriter) withMembers(s *openSchema, members []byte) {
	was := w.cut(s, propertiesKeyword)
	from := len(w.out)
	w.out = append(append(w.out, `,"properties":{`...), members...)
	in, i := valueOf(was)
	i, more := in.Enter(i)
	for more {
		name, at := in.Name(i)
		end := in.Skip(at)
		if !isTypeOrMetadata(name) {
			w.out = append(append(w.out, ','), in.Raw(i, end)...)
		}
		i, more = in.Next(end, '}')
	}
	w.out = append(w.out, '}')
	s.spans[propertiesKeyword].from, s.spans[propertiesKeyword].to = from, len(w.out)
}

// valueOf returns a cursor over member and the offset of its value. member starts with a comma or is empty.
func valueOf(member []byte) (*jsonplan.Cursor, int) {
	in, _ := jsonplan.NewCursor(member)
	_, at := in.Name(1)
	return in, at
}

// require adds names to the required properties of a schema, and removes others from the required properties.
func (w *schemaWriter) require(s *openSchema, others []string, names ...string) {
	in, i := valueOf(w.cut(s, requiredKeyword))
	var list []any
	i, more := in.Enter(i)
	for more {
		name, end := in.Text(i)
		if !slices.Contains(others, name) {
			list = append(list, name)
		}
		i, more = in.Next(end, ']')
	}
	for _, name := range names {
		if !slices.Contains(list, any(name)) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return
	}
	from := len(w.out)
	w.out = append(append(w.out, ','), membersOf(map[string]any{"required": list})...)
	s.spans[requiredKeyword].from, s.spans[requiredKeyword].to = from, len(w.out)
}
