// Package jsonpatch applies JSON patches (RFC 6902) with the deviations of kube-apiserver's
// library: negative indexes count from the end of a list, "copy" of a missing member adds null, and
// text before the first slash of a path is ignored. The size and cost of a result are limited
// before its creation, because a few operations can request more memory than the machine has.
package jsonpatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxCopied is how many bytes of JSON the copy operations of one patch may add
// to a document, as kube-apiserver's limit.
const MaxCopied = 3 << 20

// maxWork limits the cost of a patch, in visited bytes (a fraction of a second).
const maxWork = 256 << 20

// Errors of Apply. All others mean that the patch does not fit the document, in the
// words of the library that kube-apiserver uses.
var (
	// ErrCopied is returned when a patch copies more than MaxCopied.
	ErrCopied = fmt.Errorf("its copy operations would add more than %d bytes to the object", MaxCopied)
	// ErrWork is returned if a patch exceeds maxWork.
	ErrWork = errors.New("its operations take too long on an object of this size")
	// ErrTest is in the error when a test fails.
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

// pointer is the location of an operation. The zero value is absent.
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
			return nil, err
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

// The ends of the messages for operations without a pointer.
const (
	noPath    = "operation failed to decode path"
	noOwnPath = noPath + ": operation missing path field"
	noFrom    = "operation failed to decode from: operation, missing from field"
)

// reach is like find, with errors for the operation: absent without a pointer, nowhere if the
// location does not exist.
func (s *state) reach(p pointer, operation, absent, nowhere string) (parent *node, key string, err error) {
	parent, key, err = s.find(p)
	switch {
	case err == nil, errors.Is(err, ErrWork):
	case !p.given:
		err = fmt.Errorf("%s %s: %w", operation, absent, errMissing)
	default:
		err = fmt.Errorf("%s operation does not apply: "+nowhere+": %w", operation, p.text, errMissing)
	}
	return parent, key, err
}

func in(operation string, p pointer, err error) error {
	if err == nil || errors.Is(err, ErrWork) {
		return err
	}
	return fmt.Errorf("error in %s for path: '%s': %w", operation, p.text, err)
}

func (s *state) add(p pointer, value *node) error {
	parent, key, err := s.reach(p, "add", noPath, `doc is missing path: "%s"`)
	if err != nil {
		return err
	}
	return in("add", p, parent.add(s, key, value))
}

func (s *state) remove(p pointer) error {
	parent, key, err := s.reach(p, "remove", noPath, `doc is missing path: "%s"`)
	if err != nil {
		return err
	}
	return in("remove", p, parent.remove(s, key))
}

func (s *state) replace(o *operation) error {
	if o.path.given && o.path.text == "" {
		if o.value == nil || o.value[0] != '{' && o.value[0] != '[' {
			return fmt.Errorf("replace operation value must be object or array: %w", errInvalid)
		}
		s.root = o.newValue()
		return nil
	}
	parent, key, err := s.reach(o.path, "replace", noOwnPath, "doc is missing path: %s")
	if err != nil {
		return err
	}
	if err := parent.replace(key, o.newValue()); err != nil {
		return fmt.Errorf("replace operation does not apply: doc is missing key: %s: %w", o.path.text, errMissing)
	}
	return nil
}

func (s *state) move(o *operation) error {
	parent, key, err := s.reach(o.from, "move", noFrom, "doc is missing from path: %s")
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
	to, key, err := s.reach(o.path, "move", noOwnPath, "doc is missing destination path: %s")
	if err != nil {
		return err
	}
	return in("move", o.path, to.add(s, key, value))
}

func (s *state) copy(o *operation) error {
	from, key, err := s.reach(o.from, "copy", noFrom, "doc is missing from path: %s")
	if err != nil {
		return err
	}
	value, err := from.get(key)
	if err != nil {
		return fmt.Errorf("error in copy for from: '%s': %w", o.from.text, err)
	}
	parent, key, err := s.reach(o.path, "copy", noPath, "doc is missing destination path: %s")
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
	if err := parent.add(s, key, value.clone()); err != nil {
		return fmt.Errorf("error while adding value during copy: %w", err)
	}
	return nil
}

func (s *state) test(o *operation) error {
	value := s.root
	if !o.path.given || o.path.text != "" {
		parent, key, err := s.reach(o.path, "test", noOwnPath, "is missing path: %s")
		if err != nil {
			return err
		}
		if value, err = parent.get(key); err != nil {
			return in("test", o.path, err)
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
