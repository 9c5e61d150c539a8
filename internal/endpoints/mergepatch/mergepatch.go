// Package mergepatch applies JSON merge patches (RFC 7386) to documents. It copies unaffected
// members byte by byte without decoding them.
package mergepatch

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/codec/jsontext"
)

// ErrNotObject reports that a patch or document is not a JSON object.
var ErrNotObject = errors.New("Invalid JSON Patch") //lint:ignore ST1005 the text that clients of kube-apiserver see

// Patch is a parsed patch. It is immutable and safe for concurrent use.
type Patch struct{ root object }

// value is a JSON value of a patch. A patch is parsed completely, because parsing each level on demand would
// read nested values repeatedly.
type value struct {
	raw    []byte
	object *object // nil for other values
	list   []value // nil for other values and empty lists
}

// object contains the members of a JSON object, in order and with unique names.
type object struct {
	members []member
	// index maps names to positions in members; nil for up to maxLinear members.
	index map[string]int
}

// maxLinear is the maximum number of members for which a linear search is faster than a map.
const maxLinear = 16

type member struct {
	name  string
	raw   []byte // the name in the patch, with its quotes and escapes
	value value
}

// Parse parses a patch. It retains body, which must not be modified afterwards. If a member occurs
// several times, the last one applies. The error is ErrNotObject if the patch is valid JSON but not
// an object.
func Parse(body []byte) (*Patch, error) {
	if !json.Valid(body) {
		return nil, errors.New("the patch is not JSON")
	}
	i := jsontext.Space(body, 0)
	if body[i] != '{' {
		return nil, ErrNotObject
	}
	root, _ := parseObject(body, i)
	return &Patch{*root}, nil
}

// Apply appends the patched document to dst and returns the extended slice. The document must be valid JSON
// and must not overlap dst; it is not modified. The error is ErrNotObject if the document is not an object.
// If an object in the patch replaces a value that is not an object, null members of that object and of the
// objects in it are removed.
func (p *Patch) Apply(dst, document []byte) ([]byte, error) {
	i := jsontext.Space(document, 0)
	if i == len(document) || document[i] != '{' {
		return nil, ErrNotObject
	}
	dst, _ = p.root.merge(dst, document, i)
	return dst, nil
}

// parseObject parses the object at offset i and returns the offset of its end.
func parseObject(text []byte, i int) (*object, int) {
	o := &object{}
	i = jsontext.Space(text, i+1)
	for text[i] != '}' {
		nameEnd := jsontext.Skip(text, i)
		m := member{name: jsontext.Unquote(text[i:nameEnd]), raw: text[i:nameEnd]}
		i = jsontext.Space(text, jsontext.Space(text, nameEnd)+1)
		m.value, i = parseValue(text, i)
		o.set(m)
		i = jsontext.Next(text, i)
	}
	return o, i + 1
}

// parseValue parses the value at offset i and returns the offset of its end.
func parseValue(text []byte, i int) (v value, end int) {
	switch text[i] {
	case '{':
		v.object, end = parseObject(text, i)
	case '[':
		v.list, end = parseList(text, i)
	default:
		end = jsontext.Skip(text, i)
	}
	v.raw = text[i:end]
	return v, end
}

func parseList(text []byte, i int) ([]value, int) {
	var list []value
	for i = jsontext.Space(text, i+1); text[i] != ']'; {
		var element value
		element, i = parseValue(text, i)
		list = append(list, element)
		i = jsontext.Next(text, i)
	}
	return list, i + 1
}

func (o *object) set(m member) {
	if have := o.find(m.name); have >= 0 {
		o.members[have] = m
		return
	}
	o.members = append(o.members, m)
	switch {
	case o.index != nil:
		o.index[m.name] = len(o.members) - 1
	case len(o.members) > maxLinear:
		o.index = make(map[string]int, 2*len(o.members))
		for i := range o.members {
			o.index[o.members[i].name] = i
		}
	}
}

// find returns the index of a member, or -1.
func (o *object) find(name string) int {
	if o.index != nil {
		if i, ok := o.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range o.members {
		if o.members[i].name == name {
			return i
		}
	}
	return -1
}

func (v value) isNull() bool { return v.raw[0] == 'n' }

// merge appends the object at offset i of a document, patched with o. It returns the offset of the
// object's end.
func (o *object) merge(dst, document []byte, i int) ([]byte, int) {
	done := make([]bool, len(o.members))
	dst = append(dst, '{')
	empty := len(dst)
	i = jsontext.Space(document, i+1)
	for document[i] != '}' {
		start := i
		nameEnd := jsontext.Skip(document, i)
		at := jsontext.Space(document, jsontext.Space(document, nameEnd)+1)
		found := o.find(jsontext.Unquote(document[start:nameEnd]))
		if found < 0 {
			i = jsontext.Skip(document, at)
			dst = append(comma(dst, empty), document[start:i]...)
		} else {
			done[found] = true
			dst, i = o.members[found].mergeInto(dst, empty, document, at)
		}
		i = jsontext.Next(document, i)
	}
	for k := range o.members {
		if m := &o.members[k]; !done[k] && !m.value.isNull() {
			dst = append(append(comma(dst, empty), m.raw...), ':')
			dst = m.value.appendPruned(dst)
		}
	}
	return append(dst, '}'), i + 1
}

// mergeInto appends the merge result for a member of a document. at is the offset of the member's
// value. mergeInto returns the end of the value.
func (m *member) mergeInto(dst []byte, empty int, document []byte, at int) ([]byte, int) {
	if m.value.isNull() {
		return dst, jsontext.Skip(document, at)
	}
	dst = append(append(comma(dst, empty), m.raw...), ':')
	if document[at] != '{' {
		return m.value.appendPruned(dst), jsontext.Skip(document, at)
	}
	if m.value.object != nil {
		return m.value.object.merge(dst, document, at)
	}
	return append(dst, m.value.raw...), jsontext.Skip(document, at)
}

// appendPruned appends a value without the members that are null.
func (v *value) appendPruned(dst []byte) []byte {
	switch {
	case v.object != nil:
		dst = append(dst, '{')
		empty := len(dst)
		for i := range v.object.members {
			if m := &v.object.members[i]; !m.value.isNull() {
				dst = append(append(comma(dst, empty), m.raw...), ':')
				dst = m.value.appendPruned(dst)
			}
		}
		return append(dst, '}')
	case v.list != nil:
		dst = append(dst, '[')
		empty := len(dst)
		for i := range v.list {
			dst = v.list[i].appendPruned(comma(dst, empty))
		}
		return append(dst, ']')
	case v.raw[0] == '[':
		return append(dst, "[]"...)
	}
	return append(dst, v.raw...)
}

// comma appends a comma if dst has grown since it was empty.
func comma(dst []byte, empty int) []byte {
	if len(dst) > empty {
		return append(dst, ',')
	}
	return dst
}

// Sorted returns a patched document in which all objects that the patch affects have sorted members.
// kube-apiserver encodes documents in this way, which is visible in errors that quote a document that is no
// longer an object of the kind.
func (p *Patch) Sorted(changed []byte) []byte { return p.root.appendSorted(nil, changed) }

func (o *object) appendSorted(dst, document []byte) []byte {
	i := jsontext.Space(document, 0)
	if i == len(document) || document[i] != '{' {
		return append(dst, document...)
	}
	reached, _ := parseObject(document, i)
	return o.appendSortedMembers(dst, reached)
}

func (o *object) appendSortedMembers(dst []byte, reached *object) []byte {
	slices.SortStableFunc(reached.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	empty := len(dst)
	for _, m := range reached.members {
		dst = append(append(comma(dst, empty), m.raw...), ':')
		if k := o.find(m.name); k >= 0 && o.members[k].value.object != nil && m.value.object != nil {
			dst = o.members[k].value.object.appendSortedMembers(dst, m.value.object)
			continue
		}
		dst = append(dst, m.value.raw...)
	}
	return append(dst, '}')
}
