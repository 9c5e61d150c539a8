package custom

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// schemaWriter writes structural schemas as OpenAPI schemas that clients support. It
// works in one pass over their JSON, and copies what does not change.
type schemaWriter struct {
	target schemaTarget
	// rootMembers and embeddedMembers are the properties that all resources, and
	// all embedded ones, have, as members of a JSON object.
	rootMembers, embeddedMembers []byte

	in  *jsonplan.Cursor
	out []byte
}

func newSchemaWriter(as schemaTarget) *schemaWriter {
	types := metav1.TypeMeta{}.SwaggerDoc()
	metadata := reference("Standard object's metadata. More info: "+conventions+"#metadata", metaModels+"ObjectMeta", as)
	return &schemaWriter{
		target: as,
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

// root returns the schema of a resource, which is at an offset of a text, with the
// members of the object more in addition. In v2, a resource that preserves unknown
// fields has no more than a type: kubectl would reject all but its properties.
func (p *schemaWriter) root(in *jsonplan.Cursor, at int, keepsUnknown bool, more []byte) ([]byte, error) {
	p.in, p.out = in, p.out[:0]
	s := openSchema{members: p.rootMembers}
	if p.open(&s, at) == jsonplan.Invalid {
		return nil, errors.New("the schema is no JSON that can be read")
	}
	switch {
	case p.target == v2Target && (keepsUnknown || s.keepsUnknown):
		p.out = append(p.out[:0], `,"type":"object"`...)
	case !s.has(propertiesKeyword):
		p.withMembers(&s, p.rootMembers)
	}
	p.out = append(p.out, ',')
	p.out = append(p.out, more[1:len(more)-1]...)
	p.close(&s)
	return bytes.Clone(p.out), nil
}

// keyword is a keyword that may have to be removed again after it was written.
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

// openSchema is a schema that is being written: its members, each after a comma.
type openSchema struct {
	start int
	// members are properties that it always has, in place of its own.
	members []byte
	// spans are the offsets of members in the output.
	spans [keywords]struct{ from, to int }
	// The values of its own keywords.
	intOrString, embedded, nullable, keepsUnknown bool
	typeName                                      string
	// nullableMembers are the properties that may be null; freeNullable:
	// additionalProperties may.
	nullableMembers []string
	freeNullable    bool
}

func (s *openSchema) has(k keyword) bool { return s.spans[k].to > 0 }

// schema writes the schema at i, or the value in place of one. It returns its end, and
// whether it is nullable.
func (p *schemaWriter) schema(i int) (end int, nullable bool) {
	if p.in.At(i) != '{' {
		return p.copy(i), false
	}
	var s openSchema
	end = p.open(&s, i)
	p.close(&s)
	return end, s.nullable
}

func (p *schemaWriter) copy(i int) int {
	end := p.in.Skip(i)
	if end != jsonplan.Invalid {
		p.out = append(p.out, p.in.Raw(i, end)...)
	}
	return end
}

// open writes the members of a schema.
func (p *schemaWriter) open(s *openSchema, i int) (end int) {
	s.start = len(p.out)
	i, more := p.in.Enter(i)
	for more {
		name, at := p.in.Name(i)
		if at == jsonplan.Invalid {
			return at
		}
		from := len(p.out)
		i = p.member(s, name, i, at)
		if k, ok := keywordOf(name); ok {
			s.spans[k].from, s.spans[k].to = from, len(p.out)
		}
		i, more = p.in.Next(i, '}')
	}
	if i != jsonplan.Invalid {
		p.adapt(s)
	}
	return i
}

// member writes a member with its name at i and its value at at.
func (p *schemaWriter) member(s *openSchema, name string, i, at int) int {
	isTrue := p.in.At(at) == 't'
	switch name {
	case "externalDocs":
		return p.in.Skip(at)
	case "default":
		if p.target == v2Target {
			return p.in.Skip(at)
		}
	case "allOf", "anyOf", "oneOf", "not":
		if p.target == v2Target {
			return p.in.Skip(at)
		}
	case "x-kubernetes-int-or-string":
		s.intOrString = isTrue
	case "x-kubernetes-embedded-resource":
		s.embedded = isTrue
	case "x-kubernetes-preserve-unknown-fields":
		s.keepsUnknown = isTrue
	case "nullable":
		s.nullable = isTrue
	case "type":
		s.typeName, _ = p.in.Text(at)
	}
	p.out = append(append(p.out, ','), p.in.Raw(i, at)...)
	switch name {
	case "properties":
		return p.properties(s, at)
	case "items":
		end, _ := p.schema(at)
		return end
	case "additionalProperties":
		end, nullable := p.schema(at)
		s.freeNullable = nullable
		return end
	}
	return p.copy(at)
}

// properties writes the properties at i, except those of all resources, for which it writes
// s.members.
func (p *schemaWriter) properties(s *openSchema, i int) int {
	members := s.members
	if p.in.At(i) != '{' {
		p.out = append(append(append(p.out, '{'), members...), '}')
		return p.in.Skip(i)
	}
	p.out = append(append(p.out, '{'), members...)
	i, more := p.in.Enter(i)
	first := len(members) == 0
	for more {
		name, at := p.in.Name(i)
		switch {
		case at == jsonplan.Invalid:
			return at
		case len(members) > 0 && isOfEach(name):
			at = p.in.Skip(at)
		default:
			if !first {
				p.out = append(p.out, ',')
			}
			p.out = append(p.out, p.in.Raw(i, at)...)
			var nullable bool
			if at, nullable = p.schema(at); nullable {
				s.nullableMembers = append(s.nullableMembers, name)
			}
			first = false
		}
		i, more = p.in.Next(at, '}')
	}
	p.out = append(p.out, '}')
	return i
}

// isOfEach reports whether all resources have a property.
func isOfEach(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

// adapt rewrites a schema by its extensions.
func (p *schemaWriter) adapt(s *openSchema) {
	if s.intOrString && p.target != v2Target {
		p.cut(s, typeKeyword)
		if !s.has(anyOfKeyword) {
			p.out = append(p.out, `,"anyOf":[{"type":"integer"},{"type":"string"}]`...)
		}
	}
	if p.target == v2Target {
		p.adaptV2(s)
	}
	// In v2, kubectl would reject unknown fields in addition to these.
	if s.embedded && !(s.keepsUnknown && p.target == v2Target) {
		if s.members == nil {
			p.withMembers(s, p.embeddedMembers)
		}
		p.require(s, nil, "kind", "apiVersion")
	}
}

// adaptV2 removes what kubectl does not support in v2: it has no null, and rejects
// unknown fields of an object with properties. As kube-apiserver.
func (p *schemaWriter) adaptV2(s *openSchema) {
	if s.nullable || s.keepsUnknown {
		p.cut(s, itemsKeyword)
		if s.members == nil {
			p.cut(s, propertiesKeyword)
			s.nullableMembers = nil
		}
	}
	isList := s.typeName == "array" && !s.has(itemsKeyword)
	if s.nullable || isList || s.keepsUnknown && s.typeName == "object" {
		p.cut(s, typeKeyword)
	}
	if s.nullable {
		p.cut(s, nullableKeyword)
	}
	switch {
	case s.freeNullable:
		p.cut(s, requiredKeyword)
	case len(s.nullableMembers) > 0 && s.has(requiredKeyword):
		p.require(s, s.nullableMembers)
	}
}

// close ends a schema. The comma before its first member becomes its brace.
func (p *schemaWriter) close(s *openSchema) {
	if len(p.out) == s.start {
		p.out = append(p.out, ',')
	}
	p.out[s.start] = '{'
	p.out = append(p.out, '}')
}

// cut removes a member from the output, and returns it with the comma before it; nil if
// there is none.
func (p *schemaWriter) cut(s *openSchema, k keyword) []byte {
	if !s.has(k) {
		return nil
	}
	from, to := s.spans[k].from, s.spans[k].to
	was := bytes.Clone(p.out[from:to])
	p.out = slices.Delete(p.out, from, to)
	s.spans[k].from, s.spans[k].to = 0, 0
	for other := range s.spans {
		if s.spans[other].from > from {
			s.spans[other].from -= to - from
			s.spans[other].to -= to - from
		}
	}
	return was
}

// withMembers sets the three properties of every resource, in place of the schema's own.
func (p *schemaWriter) withMembers(s *openSchema, members []byte) {
	was := p.cut(s, propertiesKeyword)
	from := len(p.out)
	p.out = append(append(p.out, `,"properties":{`...), members...)
	in, i := valueOf(was)
	i, more := in.Enter(i)
	for more {
		name, at := in.Name(i)
		end := in.Skip(at)
		if !isOfEach(name) {
			p.out = append(append(p.out, ','), in.Raw(i, end)...)
		}
		i, more = in.Next(end, '}')
	}
	p.out = append(p.out, '}')
	s.spans[propertiesKeyword].from, s.spans[propertiesKeyword].to = from, len(p.out)
}

// valueOf returns a cursor at the value of a member with a comma before it, which may be
// empty.
func valueOf(member []byte) (*jsonplan.Cursor, int) {
	in, _ := jsonplan.NewCursor(member)
	_, at := in.Name(1)
	return in, at
}

// require adds names to the required properties, and removes others.
func (p *schemaWriter) require(s *openSchema, others []string, names ...string) {
	in, i := valueOf(p.cut(s, requiredKeyword))
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
	from := len(p.out)
	p.out = append(append(p.out, ','), membersOf(map[string]any{"required": list})...)
	s.spans[requiredKeyword].from, s.spans[requiredKeyword].to = from, len(p.out)
}
