// Package mergepatch applies JSON merge patches (RFC 7386) to documents. What a
// patch does not name is copied, byte by byte; nothing is decoded.
//
// Imports: nothing of ours.
package mergepatch

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// ErrNotObject says that a patch, or a document, is no JSON object.
var ErrNotObject = errors.New("Invalid JSON Patch") //lint:ignore ST1005 the text that clients of kube-apiserver see

// Patch is a parsed patch. It is immutable and safe for concurrent use.
type Patch struct{ root object }

// value is a JSON value of a patch.
type value struct {
	raw    []byte
	object *object // of an object
}

// object has the members of a JSON object in their order, each name once.
type object struct{ members []member }

type member struct {
	name  string
	raw   []byte // the name as it is written, with its quotes
	value value
}

// Parse reads a patch, of which it keeps parts: body must not change any more.
// A member that is said twice has the value said last.
func Parse(body []byte) (*Patch, error) {
	if !json.Valid(body) {
		return nil, errors.New("the patch is not JSON")
	}
	i := space(body, 0)
	if body[i] != '{' {
		return nil, ErrNotObject
	}
	root, _ := parseObject(body, i)
	return &Patch{*root}, nil
}

// Apply appends the patched document to dst. The document must be valid JSON.
// An object of the patch that takes the place of something else, and all
// objects below it, lose the members that are null.
func (p *Patch) Apply(dst, document []byte) ([]byte, error) {
	i := space(document, 0)
	if i == len(document) || document[i] != '{' {
		return nil, ErrNotObject
	}
	dst, _ = p.root.merge(dst, document, i)
	return dst, nil
}

// parseObject parses the object at i and returns where it ends.
func parseObject(text []byte, i int) (*object, int) {
	o := &object{}
	i = space(text, i+1)
	for text[i] != '}' {
		nameEnd := skip(text, i)
		m := member{name: unquote(text[i:nameEnd]), raw: text[i:nameEnd]}
		i = space(text, space(text, nameEnd)+1)
		if text[i] == '{' {
			m.value.object, nameEnd = parseObject(text, i)
		} else {
			nameEnd = skip(text, i)
		}
		m.value.raw = text[i:nameEnd]
		o.set(m)
		i = next(text, nameEnd)
	}
	return o, i + 1
}

func (o *object) set(m member) {
	if have := o.find(m.name); have >= 0 {
		o.members[have] = m
		return
	}
	o.members = append(o.members, m)
}

// find returns the index of a member, -1 if there is none. Patches are small:
// looking at each member is quicker than a map.
func (o *object) find(name string) int {
	for i := range o.members {
		if o.members[i].name == name {
			return i
		}
	}
	return -1
}

func (v value) isNull() bool { return v.raw[0] == 'n' }

// merge appends the object of a document at i with o merged into it, and
// returns where that object ends.
func (o *object) merge(dst, document []byte, i int) ([]byte, int) {
	done := make([]bool, len(o.members))
	dst = append(dst, '{')
	empty := len(dst)
	i = space(document, i+1)
	for document[i] != '}' {
		start := i
		nameEnd := skip(document, i)
		at := space(document, space(document, nameEnd)+1)
		found := o.find(unquote(document[start:nameEnd]))
		if found < 0 {
			i = skip(document, at)
			dst = append(comma(dst, empty), document[start:i]...)
		} else {
			done[found] = true
			dst, i = o.members[found].mergeInto(dst, empty, document, at)
		}
		i = next(document, i)
	}
	for k := range o.members {
		if m := &o.members[k]; !done[k] && !m.value.isNull() {
			dst = append(append(comma(dst, empty), m.raw...), ':')
			dst = m.value.appendPruned(dst)
		}
	}
	return append(dst, '}'), i + 1
}

// mergeInto appends what becomes of a member of a document, whose value is at
// at, and returns where that ends.
func (m *member) mergeInto(dst []byte, empty int, document []byte, at int) ([]byte, int) {
	if m.value.isNull() {
		return dst, skip(document, at)
	}
	dst = append(append(comma(dst, empty), m.raw...), ':')
	if document[at] != '{' {
		return m.value.appendPruned(dst), skip(document, at)
	}
	if m.value.object != nil {
		return m.value.object.merge(dst, document, at)
	}
	return append(dst, m.value.raw...), skip(document, at)
}

// appendPruned appends a value without the members that are null.
func (v value) appendPruned(dst []byte) []byte {
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
	case v.raw[0] == '[':
		return appendPrunedList(dst, v.raw)
	}
	return append(dst, v.raw...)
}

func appendPrunedList(dst, list []byte) []byte {
	dst = append(dst, '[')
	empty := len(dst)
	for i := space(list, 1); list[i] != ']'; {
		element, end := value{}, 0
		if list[i] == '{' {
			element.object, end = parseObject(list, i)
		} else {
			end = skip(list, i)
		}
		element.raw = list[i:end]
		dst = element.appendPruned(comma(dst, empty))
		i = next(list, end)
	}
	return append(dst, ']')
}

// comma appends a comma if dst has grown since it was empty.
func comma(dst []byte, empty int) []byte {
	if len(dst) > empty {
		return append(dst, ',')
	}
	return dst
}

// Sorted returns a patched document with the members of all objects that the
// patch reaches into in the order of their names. So does kube-apiserver write
// one, which shows in what it says of a document that is no object any more.
func (p *Patch) Sorted(changed []byte) []byte { return p.root.appendSorted(nil, changed) }

func (o *object) appendSorted(dst, document []byte) []byte {
	i := space(document, 0)
	if i == len(document) || document[i] != '{' {
		return append(dst, document...)
	}
	reached, _ := parseObject(document, i)
	slices.SortFunc(reached.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	empty := len(dst)
	for _, m := range reached.members {
		dst = append(append(comma(dst, empty), m.raw...), ':')
		if k := o.find(m.name); k >= 0 && o.members[k].value.object != nil {
			dst = o.members[k].value.object.appendSorted(dst, m.value.raw)
			continue
		}
		dst = append(dst, m.value.raw...)
	}
	return append(dst, '}')
}
