package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"mainstay.dev/mainstay/internal/codec/jsontext"
)

// node is a value of a document. Its JSON text is parsed, one level at a time, when a patch visits
// it. A nil *node is null.
type node struct {
	raw      []byte           // nil after open
	members  map[string]*node // of an open object
	elements []*node          // of an open list
}

// open parses one level of an object or list. It returns an error for other values.
func (n *node) open(s *state) error {
	if n == nil {
		return errMissing
	}
	if n.raw == nil {
		return nil
	}
	if n.raw[0] != '{' && n.raw[0] != '[' {
		return errMissing
	}
	if err := s.addWork(len(n.raw)); err != nil {
		return err
	}
	if n.raw[0] == '{' {
		n.members = membersOf(n.raw)
	} else {
		n.elements = elementsOf(n.raw)
	}
	n.raw = nil
	return nil
}

func membersOf(raw []byte) map[string]*node {
	members := map[string]*node{}
	for i := jsontext.Space(raw, 1); raw[i] != '}'; {
		end := jsontext.Skip(raw, i)
		name := jsontext.Unquote(raw[i:end])
		i = jsontext.Space(raw, jsontext.Space(raw, end)+1)
		end = jsontext.Skip(raw, i)
		members[name] = nodeOf(raw[i:end])
		i = jsontext.Next(raw, end)
	}
	return members
}

func elementsOf(raw []byte) []*node {
	elements := []*node{}
	for i := jsontext.Space(raw, 1); raw[i] != ']'; {
		end := jsontext.Skip(raw, i)
		elements = append(elements, nodeOf(raw[i:end]))
		i = jsontext.Next(raw, end)
	}
	return elements
}

func nodeOf(raw []byte) *node {
	if raw[0] == 'n' {
		return nil
	}
	return &node{raw: raw}
}

// The methods get, add, remove and replace require an open node.

func (n *node) get(key string) (*node, error) {
	if n.members != nil {
		return n.members[key], nil
	}
	i, err := index(key, len(n.elements))
	if err != nil {
		return nil, err
	}
	return n.elements[i], nil
}

// index converts a pointer segment to a position in a list of the given length. A negative segment counts
// from the end.
func index(key string, length int) (int, error) {
	i, err := strconv.Atoi(key)
	if err != nil {
		return 0, err
	}
	at := i
	if at < 0 {
		at += length
	}
	if at < 0 || at >= length {
		return 0, fmt.Errorf("Unable to access invalid index: %d: %w", i, errIndex)
	}
	return at, nil
}

func (n *node) add(s *state, key string, value *node) error {
	if n.members != nil {
		n.members[key] = value
		return nil
	}
	if key == "-" {
		n.elements = append(n.elements, value)
		return nil
	}
	i, err := index(key, len(n.elements)+1)
	if errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("value was not a proper array index: '%s': %w", key, err)
	}
	if err != nil {
		return err
	}
	if err := s.addMoveWork(len(n.elements) - i); err != nil {
		return err
	}
	n.elements = slices.Insert(n.elements, i, value)
	return nil
}

func (n *node) remove(s *state, key string) error {
	if n.members != nil {
		if _, ok := n.members[key]; !ok {
			return fmt.Errorf("Unable to remove nonexistent key: %s: %w", key, errMissing)
		}
		delete(n.members, key)
		return nil
	}
	i, err := index(key, len(n.elements))
	if err != nil {
		return err
	}
	if err := s.addMoveWork(len(n.elements) - i); err != nil {
		return err
	}
	n.elements = slices.Delete(n.elements, i, i+1)
	return nil
}

// addMoveWork counts the list elements that an operation moves. Moving an element is much cheaper than
// reading its text.
func (s *state) addMoveWork(elements int) error { return s.addWork(elements / 4) }

func (n *node) replace(key string, value *node) error {
	if n.members != nil {
		n.members[key] = value
		return nil
	}
	i, err := index(key, len(n.elements))
	if err != nil {
		return err
	}
	n.elements[i] = value
	return nil
}

// size returns the length of the node's JSON text. It stops when the length exceeds limit.
func (n *node) size(limit int) int {
	switch {
	case n == nil:
		return len("null")
	case n.raw != nil:
		return len(n.raw)
	}
	size := 2
	for name, member := range n.members {
		if size += len(name) + len(`"":,`) + member.size(limit-size); size > limit {
			return size
		}
	}
	for _, element := range n.elements {
		if size += len(",") + element.size(limit-size); size > limit {
			return size
		}
	}
	return size
}

// clone returns a copy that shares only JSON text, which is never modified.
func (n *node) clone() *node {
	switch {
	case n == nil:
		return nil
	case n.raw != nil:
		return &node{raw: n.raw}
	}
	return &node{raw: n.append(nil)}
}

// append appends the JSON text of a node.
func (n *node) append(dst []byte) []byte {
	switch {
	case n == nil:
		return append(dst, "null"...)
	case n.raw != nil:
		return append(dst, n.raw...)
	case n.members != nil:
		dst = append(dst, '{')
		for i, name := range slices.Sorted(maps.Keys(n.members)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendName(dst, name), ':')
			dst = n.members[name].append(dst)
		}
		return append(dst, '}')
	}
	dst = append(dst, '[')
	for i, element := range n.elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element.append(dst)
	}
	return append(dst, ']')
}

func appendName(dst []byte, name string) []byte {
	quoted, err := json.Marshal(name)
	if err != nil { // cannot happen for a string
		return append(dst, `""`...)
	}
	return append(dst, quoted...)
}

// equal reports whether two values are equal. The order of the members of an object is irrelevant;
// scalars are compared as text.
func (n *node) equal(s *state, o *node) (bool, error) {
	if n == nil || o == nil {
		return n == o, nil
	}
	if !n.isContainer() || !o.isContainer() {
		return !n.isContainer() && !o.isContainer() && bytes.Equal(n.raw, o.raw), nil
	}
	if err := n.open(s); err != nil {
		return false, err
	}
	if err := o.open(s); err != nil {
		return false, err
	}
	if (n.members == nil) != (o.members == nil) || len(n.members) != len(o.members) || len(n.elements) != len(o.elements) {
		return false, nil
	}
	for name, member := range n.members {
		other, ok := o.members[name]
		if !ok {
			return false, nil
		}
		if same, err := member.equal(s, other); !same || err != nil {
			return false, err
		}
	}
	for i, element := range n.elements {
		if same, err := element.equal(s, o.elements[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (n *node) isContainer() bool { return n.raw == nil || n.raw[0] == '{' || n.raw[0] == '[' }
