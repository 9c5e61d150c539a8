package openapi

import (
	"fmt"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestMessages compares the tables of messages with the descriptors of the protobuf messages.
func TestMessages(t *testing.T) {
	t.Parallel()
	for v, file := range map[version]protoreflect.FileDescriptor{v2: openapi_v2.File_openapiv2_OpenAPIv2_proto, v3: openapi_v3.File_openapiv3_OpenAPIv3_proto} {
		seen := map[*message]bool{}
		var visit func(m *message)
		visit = func(m *message) {
			if seen[m] {
				return
			}
			seen[m] = true
			descriptor := file.Messages().ByName(protoreflect.Name(m.name))
			if descriptor == nil {
				t.Fatalf("there is no message %s", m.name)
			}
			compareMessage(t, m, descriptor)
			for _, f := range m.fields() {
				if f.message != nil {
					visit(f.message)
				}
			}
		}
		visit(testMessages(v))
		if any := file.Messages().ByName("Any").Fields().ByName("yaml"); any.Number() != yamlField {
			t.Errorf("the YAML of a value is in field %d", any.Number())
		}
	}
}

// fields returns all fields of a message by their names in the table.
func (m *message) fields() map[string]*messageField {
	all := map[string]*messageField{}
	for name, f := range m.members {
		all[name] = f
	}
	for i, f := range m.whole {
		all[fmt.Sprint(". ", i)] = f
	}
	if m.others != nil {
		all["*"] = m.others
	}
	if m.extensions != nil {
		all["x-*"] = m.extensions
	}
	return all
}

func compareMessage(t *testing.T, m *message, descriptor protoreflect.MessageDescriptor) {
	t.Helper()
	fields := m.fields()
	// gnostic always represents an AnyOrExpression as an expression, so the table lacks the field any.
	if want := descriptor.Fields().Len(); len(fields) != want && m.name != "AnyOrExpression" {
		t.Errorf("%s has %d fields; want %d", m.name, len(fields), want)
	}
	for name, f := range fields {
		d := descriptor.Fields().ByNumber(f.number)
		if d == nil {
			t.Errorf("%s has no field %d", m.name, f.number)
			continue
		}
		want := d.JSONName()
		switch {
		case d.Name() == "_ref":
			want = "$ref"
		case strings.HasSuffix(string(d.Name()), "_extension"):
			want = "x-*"
		case f.named:
			want = "*"
		case name[0] == '.':
			want = name
		}
		item, single := d, m.name == "ItemsItem" // gnostic represents an ItemsItem as a list with one element
		if f.named {
			if names := d.Message().Fields(); names.Len() != 2 || names.ByName("name").Number() != nameField || names.ByName("value").Number() != valueField {
				t.Errorf("%s.%s is not a list of named values", m.name, name)
			}
			item = d.Message().Fields().ByName("value")
		}
		if name != want || d.IsList() != (f.list || f.named || single) || kindOf(item) != f.kind || f.kind == kindMessage && string(item.Message().Name()) != f.message.name {
			t.Errorf("%s.%s is not as described: %v", m.name, name, d)
		}
	}
}

func kindOf(d protoreflect.FieldDescriptor) fieldKind {
	switch d.Kind() {
	case protoreflect.BoolKind:
		return kindBool
	case protoreflect.Int64Kind:
		return kindInt
	case protoreflect.DoubleKind:
		return kindNumber
	case protoreflect.StringKind:
		return kindText
	}
	if d.Message().Name() == "Any" {
		return kindAny
	}
	return kindMessage
}
