package openapi

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is the mapping of a JSON value to a protobuf message.
type message struct {
	name string
	// members contains the fields for the members of an object, by name. extensions is the field for
	// members with the prefix x-, and others is the field for the remaining members.
	members            map[string]*messageField
	others, extensions *messageField
	// whole contains the fields for the complete value. Such a message has no members.
	whole []*messageField
	// choices contains the possible messages of an object. The last choice whose condition is satisfied
	// applies; if there is none, the first choice applies.
	choices []choice
}

// choice is a possible message for an object, and its condition.
type choice struct {
	// key and value are the condition, which is satisfied if the object has a member named key and, unless
	// value is empty, the text of this member is value. If key is empty, the condition is always satisfied.
	key, value string
	// path contains the nested fields that lead to the message.
	path []*messageField
}

// messageField is a field of a message.
type messageField struct {
	number protowire.Number
	kind   fieldKind
	// list reports whether the value is a list of values of this kind. named reports whether the
	// value is wrapped in a message together with the name of its member.
	list, named bool
	message     *message // only for kindMessage
	condition   string   // as in the table; empty for no condition
}

type fieldKind byte

const (
	kindText fieldKind = iota
	kindBool
	kindInt
	kindNumber
	kindAny
	kindMessage
)

// Fields of the messages for a named member and for any value.
const (
	nameField  = 1
	valueField = 2
	yamlField  = 2
)

// readMessages parses one of the embedded tables of messages, and returns the
// message Document. It panics if the table is malformed.
func readMessages(table string) *message {
	r := tableReader{messages: map[string]*message{}}
	for line := range strings.SplitSeq(table, "\n") {
		if name, fields, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, " ") {
			r.current, line = r.message(name), fields
		}
		for _, field := range strings.Fields(line) {
			r.field(field)
		}
	}
	for _, m := range r.messages {
		if len(m.whole) == 0 && m.members == nil {
			panic(fmt.Sprintf("openapi: no message %s in the table", m.name))
		}
		m.choices = m.alternatives()
	}
	return r.message("Document")
}

type tableReader struct {
	messages map[string]*message
	current  *message
}

func (r *tableReader) message(name string) *message {
	if r.messages[name] == nil {
		r.messages[name] = &message{name: name}
	}
	return r.messages[name]
}

// field parses a field such as maximum=11:number.
func (r *tableReader) field(text string) {
	name, rest, _ := strings.Cut(text, "=")
	number, kind, _ := strings.Cut(rest, ":")
	f := &messageField{}
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("openapi: field %s of %s in the table: %v", text, r.current.name, err))
	}
	f.number = protowire.Number(n)
	kind, f.condition, _ = strings.Cut(kind, "?")
	if inner, ok := strings.CutPrefix(kind, "{"); ok {
		kind, f.named = strings.TrimSuffix(inner, "}"), true
	}
	kind, f.list = strings.CutPrefix(kind, "[]")
	switch kind {
	case "", "string", "String":
	case "bool":
		f.kind = kindBool
	case "int":
		f.kind = kindInt
	case "number":
		f.kind = kindNumber
	case "Any":
		f.kind = kindAny
	default:
		f.kind, f.message = kindMessage, r.message(kind)
	}
	r.current.put(name, f)
}

func (m *message) put(name string, f *messageField) {
	if name == "." {
		m.whole = append(m.whole, f)
		return
	}
	if m.members == nil {
		m.members = map[string]*messageField{}
	}
	switch name {
	case "*":
		m.others = f
	case "x-*":
		m.extensions = f
	default:
		m.members[name] = f
	}
}

// alternatives returns the choices of an object. Nested choices precede the outer ones, because
// later choices take precedence.
func (m *message) alternatives() []choice {
	var list []choice
	for _, conditional := range []bool{false, true} {
		for _, f := range m.whole {
			if f.kind != kindMessage || conditional != (f.condition != "") {
				continue
			}
			inner := f.message.alternatives()
			if inner == nil {
				inner = []choice{{}}
			}
			for i, c := range inner {
				if i == 0 {
					c.key, c.value, _ = strings.Cut(f.condition, "=")
				}
				c.path = append([]*messageField{f}, c.path...)
				list = append(list, c)
			}
		}
	}
	return list
}

// field returns the field of a member, or nil.
func (m *message) field(name string) *messageField {
	if f := m.members[name]; f != nil {
		return f
	}
	if m.extensions != nil && strings.HasPrefix(name, "x-") {
		return m.extensions
	}
	return m.others
}

// fieldForValue returns the field for a whole value that is not an object, or nil. first is the first byte
// of the value.
func (m *message) fieldForValue(first byte) *messageField {
	for _, f := range m.whole {
		fits := false
		switch f.kind {
		case kindText:
			fits = first == '"'
		case kindBool:
			fits = first == 't' || first == 'f'
		case kindInt, kindNumber:
			fits = first == '-' || first >= '0' && first <= '9'
		}
		if fits || f.list && first == '[' {
			return f
		}
	}
	return nil
}
