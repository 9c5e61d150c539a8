package ownership

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A fieldSet is the set of fields in one entry of managed fields. It is immutable.
type fieldSet struct {
	nodes []node
	// text is the encoded set.
	text []byte
	// reconciled reports whether the set is consistent with the current merge schema; see
	// kindSchema.reconciled.
	reconciled bool
}

// errMalformed reports FieldsV1 without a valid set.
var errMalformed = errors.New("malformed field set")

// parse decodes FieldsV1. It decodes the usual form directly and other forms with fieldpath. The result
// shares no memory with raw.
func parse(raw []byte) (*fieldSet, error) {
	text := bytes.Clone(raw)
	set, ok := parsePlain(string(text))
	if deeperThan(set, maxSetDepth) {
		return nil, errMalformed
	}
	if ok {
		var e encoder
		if bytes.Equal(e.encode(set), text) {
			return &fieldSet{nodes: set, text: text}, nil
		}
	}
	var general fieldpath.Set
	if err := general.FromJSON(bytes.NewReader(raw)); err != nil {
		return nil, errMalformed
	}
	text, err := general.ToJSON()
	if err != nil {
		return nil, errMalformed
	}
	var b builder
	list, err := b.fromSet(&general)
	if err != nil {
		return nil, err
	}
	if deeperThan(list, maxSetDepth) {
		return nil, errMalformed
	}
	return &fieldSet{nodes: list, text: text}, nil
}

// maxSetDepth is the maximum depth of a set. JSON decoders accept 10000 levels, so an object with a deeper
// set could be stored, but not read again.
const maxSetDepth = 9000

// deeperThan reports whether a set has more than limit levels.
func deeperThan(set []node, limit int) bool {
	return len(set) > 0 && (limit == 0 || slices.ContainsFunc(set, func(n node) bool { return deeperThan(n.children, limit-1) }))
}

// parsePlain parses the usual encoding of a set: without spaces, sorted, and with few escapes. The
// elements are substrings of text.
func parsePlain(text string) ([]node, bool) {
	p := parser{rest: text}
	list, _, ok := p.set()
	return list, ok && p.rest == "" && list != nil
}

type parser struct {
	builder
	rest    string
	scratch []byte
}

func (p *parser) skip(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = rest
	return ok
}

// set parses an object. self reports whether the field of the object is itself a member of the set.
func (p *parser) set() (list []node, self, ok bool) {
	if !p.skip("{") {
		return nil, false, false
	}
	if p.skip("}") {
		return nil, true, true
	}
	if p.skip(`".":{}`) {
		self = true
		if !p.skip(",") {
			return nil, false, false
		}
	}
	start := len(p.stack)
	for {
		e, ok := p.element()
		if !ok || !p.skip(":") {
			return nil, false, false
		}
		if n := len(p.stack); n > start && p.stack[n-1].element >= e {
			return nil, false, false
		}
		children, isMember, ok := p.set()
		if !ok {
			return nil, false, false
		}
		var m mark
		if isMember {
			m = member
		}
		p.stack = append(p.stack, node{e, m, children})
		if p.skip("}") {
			return p.popList(start), self, true
		}
		if !p.skip(",") {
			return nil, false, false
		}
	}
}

// element parses a quoted name.
func (p *parser) element() (element, bool) {
	if !p.skip(`"`) {
		return "", false
	}
	end := strings.IndexByte(p.rest, '"')
	if end < 2 || p.rest[1] != ':' {
		return "", false
	}
	if kind := p.rest[0]; kind != 'k' && kind != 'v' {
		name := p.rest[2:end]
		p.rest = p.rest[end+1:]
		if kind != 'f' || strings.IndexByte(name, '\\') >= 0 {
			return "", false
		}
		e, err := fieldElement(name)
		return e, err == nil
	}
	text, ok := p.unquote()
	if !ok {
		return "", false
	}
	return elementFromText(text)
}

// unquote reads up to the final quote. The result is valid until the next call.
func (p *parser) unquote() ([]byte, bool) {
	p.scratch = p.scratch[:0]
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return p.scratch, true
		case c != '\\':
			p.scratch = append(p.scratch, c)
		case i+1 < len(p.rest) && (p.rest[i+1] == '"' || p.rest[i+1] == '\\'):
			i++
			p.scratch = append(p.scratch, p.rest[i])
		default:
			return nil, false
		}
	}
	return nil, false
}

// elementFromText encodes an element with the text form k:{...} or v:... It returns false for strings with
// escapes and for numbers that are not integers.
func elementFromText(text []byte) (element, bool) {
	encoded := make([]byte, 0, len(text)+8)
	rest := text[2:]
	ok := true
	if text[0] == 'v' {
		encoded, rest, ok = appendPlainScalar(append(encoded, markValue), rest)
		return string(encoded), ok && len(rest) == 0
	}
	encoded = append(encoded, markKey)
	var last []byte
	for open := byte('{'); len(rest) > 2 && rest[0] == open && rest[1] == '"'; open = ',' {
		end := bytes.IndexByte(rest[2:], '"')
		if end < 0 || !plain(rest[2:2+end]) || len(rest) < end+4 || rest[end+3] != ':' {
			return "", false
		}
		name := rest[2 : 2+end]
		if open == ',' && bytes.Compare(last, name) >= 0 {
			return "", false
		}
		last = name
		encoded = append(append(append(encoded, fieldFollows), name...), 0)
		if encoded, rest, ok = appendPlainScalar(encoded, rest[end+4:]); !ok {
			return "", false
		}
	}
	return string(append(encoded, 0)), string(rest) == "}"
}

func plain(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	return true
}

// appendPlainScalar encodes the JSON scalar at the beginning of text.
func appendPlainScalar(dst, text []byte) (encoded, rest []byte, ok bool) {
	if len(text) == 0 {
		return dst, text, false
	}
	switch text[0] {
	case '"':
		end := bytes.IndexByte(text[1:], '"')
		if end < 0 || !plain(text[1:1+end]) {
			return dst, text, false
		}
		return append(append(append(dst, scalarString), text[1:1+end]...), 0), text[end+2:], true
	case 't':
		rest, ok := bytes.CutPrefix(text, []byte("true"))
		return appendBool(dst, true), rest, ok
	case 'f':
		rest, ok := bytes.CutPrefix(text, []byte("false"))
		return appendBool(dst, false), rest, ok
	}
	return appendPlainInt(dst, text)
}

func appendPlainInt(dst, text []byte) (encoded, rest []byte, ok bool) {
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	n, i := int64(0), 0
	for ; i < len(digits) && digits[i] >= '0' && digits[i] <= '9' && i < 16; i++ {
		n = 10*n + int64(digits[i]-'0')
	}
	if i == 0 || negative && n == 0 {
		return dst, text, false
	}
	if negative {
		n = -n
	}
	encoded, err := appendInt(dst, n)
	return encoded, digits[i:], err == nil
}
