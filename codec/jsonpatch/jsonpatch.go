// Package jsonpatch applies JSON patches (RFC 6902) to documents, with the
// leniencies of the library that kube-apiserver uses: negative indexes count
// from the end of a list, "copy" of a missing member adds null, and what stands
// before a path's first slash does not matter.
//
// What a patch may create, and what it may cost, is limited before it is
// created: a few operations can ask for more memory than a machine has.
//
// Imports: codec/jsontext.
package jsonpatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxCopied is how many bytes of JSON the copy operations of one patch may add
// to a document, as kube-apiserver's limit.
const MaxCopied = 3 << 20

// maxWork limits what applying a patch may cost, in bytes looked at: a fraction
// of a second.
const maxWork = 256 << 20

// Errors of Apply. All others mean that the patch does not fit the document.
var (
	// ErrCopied is returned when a patch copies more than MaxCopied.
	ErrCopied = fmt.Errorf("its copy operations would add more than %d bytes to the object", MaxCopied)
	// ErrWork is returned when a patch takes too long to apply.
	ErrWork = errors.New("its operations take too long on an object of this size")
)

var (
	errTest    = errors.New("test failed")
	errMissing = errors.New("missing value")
	errNowhere = errors.New("nothing is where a path leads through") // becomes an error with the path
	errIndex   = errors.New("an index is not in its list")
	errInvalid = errors.New("an operation is not valid")
)

// Patch is a parsed patch. It is immutable and safe for concurrent use.
type Patch struct{ operations []operation }

type operation struct {
	op         string
	path, from pointer
	// value is compact JSON; nil where there is none or it is null.
	value    []byte
	hasValue bool
}

// pointer is where an operation applies. The zero value is none.
type pointer struct {
	text  string
	given bool
}

// Parse reads a patch. An operation that is not valid fails when it is applied.
func Parse(body []byte) (*Patch, error) {
	var members []map[string]*json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	p := &Patch{operations: make([]operation, 0, len(members))}
	for _, m := range members {
		o := operation{path: pointerOf(m["path"]), from: pointerOf(m["from"])}
		if op := pointerOf(m["op"]); op.given {
			o.op = op.text
		}
		var value *json.RawMessage
		if value, o.hasValue = m["value"]; value != nil {
			compact, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			o.value = compact
		}
		p.operations = append(p.operations, o)
	}
	return p, nil
}

// Len returns how many operations there are.
func (p *Patch) Len() int { return len(p.operations) }

func pointerOf(raw *json.RawMessage) pointer {
	var text string
	if raw == nil || json.Unmarshal(*raw, &text) != nil {
		return pointer{}
	}
	return pointer{text, true}
}

// Apply appends the patched document to dst, the members of each object that
// the patch reached in the order of their names. The document must be valid
// JSON. It returns ErrCopied or ErrWork for a patch that exceeds a limit.
func (p *Patch) Apply(dst, document []byte) ([]byte, error) {
	document = bytes.TrimSpace(document)
	if len(document) == 0 || document[0] != '{' && document[0] != '[' {
		return nil, errInvalid
	}
	s := state{root: &node{raw: document}}
	for i := range p.operations {
		if err := s.do(&p.operations[i]); err != nil {
			return nil, p.operations[i].worded(err)
		}
	}
	return s.root.append(dst), nil
}

// state is a document with the operations that were applied so far.
type state struct {
	root         *node
	copied, work int
}

// spend counts work.
func (s *state) spend(n int) error {
	if s.work += n; s.work > maxWork {
		return ErrWork
	}
	return nil
}

func (s *state) do(o *operation) error {
	switch o.op {
	case "add":
		return s.add(o.path, o.newValue())
	case "remove":
		return s.remove(o.path)
	case "replace":
		return s.replace(o)
	case "move":
		value, err := s.get(o.from)
		if err != nil {
			return err
		}
		if err := s.remove(o.from); err != nil {
			return err
		}
		return s.add(o.path, value)
	case "copy":
		return s.copy(o)
	case "test":
		return s.test(o)
	}
	return errInvalid
}

// worded is the error of an operation as kube-apiserver's library has it, where its
// path leads nowhere or its member is missing.
func (o *operation) worded(err error) error {
	switch {
	case errors.Is(err, errNowhere) && o.op == "test":
		return fmt.Errorf("test operation does not apply: is missing path: %s: %w", o.path.text, errMissing)
	case errors.Is(err, errNowhere) && (o.op == "add" || o.op == "remove"):
		return fmt.Errorf("%s operation does not apply: doc is missing path: %q: %w", o.op, o.path.text, errMissing)
	case errors.Is(err, errNowhere):
		return fmt.Errorf("%s operation does not apply: doc is missing path: %s: %w", o.op, o.path.text, errMissing)
	case errors.Is(err, errTest):
		return fmt.Errorf("testing value %s failed: %w", o.path.text, errTest)
	case errors.Is(err, errMissing), errors.Is(err, errIndex):
		return fmt.Errorf("error in %s for path: '%s': %w", o.op, o.path.text, err)
	}
	return err
}

func (o *operation) newValue() *node {
	if o.value == nil {
		return nil
	}
	return &node{raw: o.value}
}

// find returns the object or list that a pointer's last step is taken in.
func (s *state) find(p pointer) (parent *node, key string, err error) {
	if !p.given {
		return nil, "", errInvalid
	}
	if err := s.spend(len(p.text)); err != nil {
		return nil, "", err
	}
	_, rest, ok := strings.Cut(p.text, "/")
	if !ok {
		return nil, "", errNowhere
	}
	at := s.root
	for {
		if err := at.open(s); err != nil {
			return nil, "", err
		}
		step, further, more := strings.Cut(rest, "/")
		key = unescape(step)
		if !more {
			return at, key, nil
		}
		if at, err = at.get(key); err != nil {
			return nil, "", errNowhere
		}
		rest = further
	}
}

// unescape returns a step of a pointer as it is meant (RFC 6901).
func unescape(step string) string {
	if !strings.Contains(step, "~") {
		return step
	}
	var b strings.Builder
	for i := 0; i < len(step); i++ {
		if c := step[i]; c == '~' && i+1 < len(step) && (step[i+1] == '0' || step[i+1] == '1') {
			i++
			b.WriteByte("~/"[step[i]-'0'])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (s *state) get(p pointer) (*node, error) {
	parent, key, err := s.find(p)
	if err != nil {
		return nil, err
	}
	return parent.get(key)
}

func (s *state) add(p pointer, value *node) error {
	parent, key, err := s.find(p)
	if err != nil {
		return err
	}
	return parent.add(s, key, value)
}

func (s *state) remove(p pointer) error {
	parent, key, err := s.find(p)
	if err != nil {
		return err
	}
	return parent.remove(s, key)
}

func (s *state) replace(o *operation) error {
	if o.path.given && o.path.text == "" {
		if o.value == nil || o.value[0] != '{' && o.value[0] != '[' {
			return errInvalid
		}
		s.root = o.newValue()
		return nil
	}
	parent, key, err := s.find(o.path)
	if err != nil {
		return err
	}
	return parent.replace(key, o.newValue())
}

func (s *state) copy(o *operation) error {
	value, err := s.get(o.from)
	if err != nil {
		return err
	}
	parent, key, err := s.find(o.path)
	if err != nil {
		return err
	}
	size := value.size(MaxCopied - s.copied)
	if size > MaxCopied-s.copied {
		return ErrCopied
	}
	s.copied += size
	if err := s.spend(size); err != nil {
		return err
	}
	return parent.add(s, key, value.clone())
}

func (s *state) test(o *operation) error {
	if o.path.given && o.path.text == "" {
		return s.compare(s.root, o)
	}
	value, err := s.get(o.path)
	if err != nil {
		return err
	}
	return s.compare(value, o)
}

func (s *state) compare(value *node, o *operation) error {
	if value == nil && o.value == nil {
		return nil
	}
	if !o.hasValue {
		return errTest
	}
	same, err := value.equal(s, o.newValue())
	if err == nil && !same {
		err = errTest
	}
	return err
}
