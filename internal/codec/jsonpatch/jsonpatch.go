// Package jsonpatch applies JSON patches (RFC 6902) with the deviations of the library that
// kube-apiserver uses: negative indexes count from the end of a list, "copy" of a missing member
// adds null, and text before the first slash of a path is ignored. Limits are checked before each
// operation, because a few operations can request more memory than the machine has.
package jsonpatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxCopied is the maximum number of bytes that the copy operations of a patch may add to a
// document. It equals kube-apiserver's limit.
const MaxCopied = 3 << 20

// maxWork is the maximum number of bytes that the operations of a patch may visit. It limits the CPU time
// of a patch to a fraction of a second.
const maxWork = 256 << 20

// Errors of Apply. Other errors mean that the patch does not match the document; they have the
// messages of the library that kube-apiserver uses.
var (
	// ErrCopied reports that a patch copies more than MaxCopied bytes.
	ErrCopied = fmt.Errorf("its copy operations would add more than %d bytes to the object", MaxCopied)
	// ErrWork reports that a patch is too expensive for the document.
	ErrWork = errors.New("its operations take too long on an object of this size")
	// ErrTest is wrapped by the error of a failed test operation.
	ErrTest = errors.New("test failed")
)

var (
	errMissing = errors.New("missing value")
	errIndex   = errors.New("invalid index referenced")
	errInvalid = errors.New("invalid state detected")
)

// Patch is a parsed patch. It is immutable and safe for concurrent use.
type Patch struct{ operations []operation }

type operation struct {
	op         string
	path, from pointer
	// value is compact JSON; nil if absent or null.
	value    []byte
	hasValue bool
}

// pointer is a JSON pointer (RFC 6901). The zero value means that the operation has none.
type pointer struct {
	text  string
	isSet bool
}

// Parse parses a patch. It returns an error only if body is not a JSON list of objects; an invalid
// operation fails in Apply.
func Parse(body []byte) (*Patch, error) {
	var members []map[string]*json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	p := &Patch{operations: make([]operation, 0, len(members))}
	for _, m := range members {
		o := operation{path: pointerOf(m["path"]), from: pointerOf(m["from"])}
		if op := pointerOf(m["op"]); op.isSet {
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

// Len returns the number of operations.
func (p *Patch) Len() int { return len(p.operations) }

func pointerOf(raw *json.RawMessage) pointer {
	var text string
	if raw == nil || json.Unmarshal(*raw, &text) != nil {
		return pointer{}
	}
	return pointer{text, true}
}

// Apply appends the patched document to dst and returns the result. document must be valid JSON and
// is not modified. In objects that the patch visits, members are sorted by name. It returns
// ErrCopied or ErrWork if the patch exceeds a limit.
func (p *Patch) Apply(dst, document []byte) ([]byte, error) {
	document = bytes.TrimSpace(document)
	if len(document) == 0 || document[0] != '{' && document[0] != '[' {
		return nil, errInvalid
	}
	s := state{root: &node{raw: document}}
	for i := range p.operations {
		if err := s.apply(&p.operations[i]); err != nil {
			return nil, err
		}
	}
	return s.root.append(dst), nil
}

// state is a document to which a patch is being applied.
type state struct {
	root         *node
	copied, work int
}

// addWork adds n visited bytes, and returns ErrWork at the limit.
func (s *state) addWork(n int) error {
	if s.work += n; s.work > maxWork {
		return ErrWork
	}
	return nil
}

func (s *state) apply(o *operation) error {
	switch o.op {
	case "add":
		return s.add(o.path, o.newValue())
	case "remove":
		return s.remove(o.path)
	case "replace":
		return s.replace(o)
	case "move":
		return s.move(o)
	case "copy":
		return s.copy(o)
	case "test":
		return s.test(o)
	}
	return fmt.Errorf("Unexpected kind: %s", cmp.Or(o.op, "unknown"))
}

func (o *operation) newValue() *node {
	if o.value == nil {
		return nil
	}
	return &node{raw: o.value}
}

// find returns the object or list that contains the target of a pointer, and the last segment of
// the pointer.
func (s *state) find(p pointer) (parent *node, key string, err error) {
	if !p.isSet {
		return nil, "", errInvalid
	}
	if err := s.addWork(len(p.text)); err != nil {
		return nil, "", err
	}
	_, rest, ok := strings.Cut(p.text, "/")
	if !ok {
		return nil, "", errMissing
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
			return nil, "", err
		}
		rest = further
	}
}

// unescape decodes a segment of a pointer (RFC 6901).
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

// Messages for operations without a pointer.
const (
	noPath    = "operation failed to decode path"
	noOwnPath = noPath + ": operation missing path field"
	noFrom    = "operation failed to decode from: operation, missing from field"
)

// lookup is like find, but returns an error with the message of the operation. The message contains absent
// if the operation has no pointer, and nowhere if the location does not exist.
func (s *state) lookup(p pointer, operation, absent, nowhere string) (parent *node, key string, err error) {
	parent, key, err = s.find(p)
	switch {
	case err == nil, errors.Is(err, ErrWork):
	case !p.isSet:
		err = fmt.Errorf("%s %s: %w", operation, absent, errMissing)
	default:
		err = fmt.Errorf("%s operation does not apply: "+nowhere+": %w", operation, p.text, errMissing)
	}
	return parent, key, err
}

func wrapError(operation string, p pointer, err error) error {
	if err == nil || errors.Is(err, ErrWork) {
		return err
	}
	return fmt.Errorf("error in %s for path: '%s': %w", operation, p.text, err)
}

func (s *state) add(p pointer, value *node) error {
	parent, key, err := s.lookup(p, "add", noPath, `doc is missing path: "%s"`)
	if err != nil {
		return err
	}
	return wrapError("add", p, parent.add(s, key, value))
}

func (s *state) remove(p pointer) error {
	parent, key, err := s.lookup(p, "remove", noPath, `doc is missing path: "%s"`)
	if err != nil {
		return err
	}
	return wrapError("remove", p, parent.remove(s, key))
}

func (s *state) replace(o *operation) error {
	if o.path.isSet && o.path.text == "" {
		if o.value == nil || o.value[0] != '{' && o.value[0] != '[' {
			return fmt.Errorf("replace operation value must be object or array: %w", errInvalid)
		}
		s.root = o.newValue()
		return nil
	}
	parent, key, err := s.lookup(o.path, "replace", noOwnPath, "doc is missing path: %s")
	if err != nil {
		return err
	}
	if err := parent.replace(key, o.newValue()); err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", o.path.text, errMissing)
	}
	return nil
}

func (s *state) move(o *operation) error {
	parent, key, err := s.lookup(o.from, "move", noFrom, "doc is missing from path: %s")
	if err != nil {
		return err
	}
	value, err := parent.get(key)
	if err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	if err := parent.remove(s, key); err != nil {
		return fmt.Errorf("error in move for path: '%s': %w", key, err)
	}
	to, key, err := s.lookup(o.path, "move", noOwnPath, "doc is missing destination path: %s")
	if err != nil {
		return err
	}
	return wrapError("move", o.path, to.add(s, key, value))
}

func (s *state) copy(o *operation) error {
	from, key, err := s.lookup(o.from, "copy", noFrom, "doc is missing from path: %s")
	if err != nil {
		return err
	}
	value, err := from.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", o.from.text, err)
	}
	parent, key, err := s.lookup(o.path, "copy", noPath, "doc is missing destination path: %s")
	if err != nil {
		return err
	}
	size := value.size(MaxCopied - s.copied)
	if size > MaxCopied-s.copied {
		return ErrCopied
	}
	s.copied += size
	if err := s.addWork(size); err != nil {
		return err
	}
	if err := parent.add(s, key, value.clone()); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

func (s *state) test(o *operation) error {
	value := s.root
	if !o.path.isSet || o.path.text != "" {
		parent, key, err := s.lookup(o.path, "test", noOwnPath, "is missing path: %s")
		if err != nil {
			return err
		}
		if value, err = parent.get(key); err != nil {
			return wrapError("test", o.path, err)
		}
	}
	return s.compare(value, o)
}

func (s *state) compare(value *node, o *operation) error {
	if value == nil && o.value == nil {
		return nil
	}
	same := false
	if o.hasValue {
		var err error
		if same, err = value.equal(s, o.newValue()); err != nil {
			return err
		}
	}
	if !same {
		return fmt.Errorf("testing value %s failed: %w", o.path.text, ErrTest)
	}
	return nil
}
