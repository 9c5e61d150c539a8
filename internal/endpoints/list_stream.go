package endpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// chunkSize is the size of the chunks in which a list is written, in bytes. It is large enough to fill TLS
// records and HTTP/2 frames, but small compared with a long list.
const chunkSize = 128 << 10

// yamlBatchSize is the minimum size of a batch of JSON items that is converted to YAML, in bytes.
const yamlBatchSize = 16 << 10

//nolint:gochecknoglobals // the pool contains only buffers, so servers in one process do not share state
var chunkPool = sync.Pool{New: func() any { b := make([]byte, 0, chunkSize+chunkSize/2); return &b }}

// listForm is the JSON form of a list. The array of items is its last field.
type listForm struct {
	// head is the JSON object up to the value of the items field.
	head []byte
	// empty is the value of the items field if there are no items: [] or null.
	empty string
	// item appends the item of a record.
	item func(dst []byte, record *codec.Record) ([]byte, error)
}

// foot is the JSON text of a list after its array.
const foot = "}\n"

// streamList sends a list while it is being read from storage.
func (c *call) streamList(t target, list *rest.List, form *listForm) error {
	pooled := chunkPool.Get().(*[]byte)
	defer func() { chunkPool.Put(pooled) }()
	s := listStream{form: form, text: newListEncoder(t, form), buf: (*pooled)[:0], audit: newAuditedBody(c.r)}
	s.out = bodyWriter{w: c.w, r: c.r, mediaType: t.media.String(), code: http.StatusOK, length: unknownLength}
	defer s.out.release()
	for record, err := range list.Items {
		if err == nil {
			err = s.add(record)
		}
		if err != nil {
			return s.out.fail(err)
		}
	}
	if err := s.end(); err != nil {
		return s.out.fail(err)
	}
	if cap(s.buf) <= 4*chunkSize {
		*pooled = s.buf[:0]
	}
	return nil
}

// listStream writes a list to a response, item by item.
type listStream struct {
	form  *listForm
	text  listEncoder
	out   bodyWriter
	buf   []byte // encoded data that is not written yet
	raw   []byte // the item being added, in JSON
	count int
	audit *auditedBody // receives the list in JSON; nil disables it
}

// add adds the item of a record.
func (s *listStream) add(record *codec.Record) (err error) {
	separator := byte(',')
	if s.count == 0 {
		separator = '['
		if s.buf, err = s.text.head(s.buf); err != nil {
			return err
		}
		s.audit.write(s.form.head)
	}
	s.count++
	if err := s.append(separator, record); err != nil {
		return err
	}
	if len(s.buf) < chunkSize {
		return nil
	}
	err = s.out.write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// append encodes an item into buf. Compact JSON is appended directly, without a copy.
func (s *listStream) append(separator byte, record *codec.Record) (err error) {
	if _, compact := s.text.(compactEncoder); compact {
		before := len(s.buf)
		if s.buf, err = s.form.item(append(s.buf, separator), record); err == nil {
			s.audit.write(s.buf[before:])
		}
		return err
	}
	if s.raw, err = s.form.item(append(s.raw[:0], separator), record); err != nil {
		return err
	}
	s.audit.write(s.raw)
	s.buf, err = s.text.item(s.buf, s.raw)
	return err
}

// end writes the remaining data.
func (s *listStream) end() (err error) {
	if s.count == 0 {
		raw := append(append(append(s.raw[:0], s.form.head...), s.form.empty...), foot...)
		s.audit.write(raw)
		s.buf, err = s.text.whole(s.buf, raw)
	} else {
		s.audit.write([]byte("]" + foot))
		s.buf, err = s.text.foot(s.buf)
	}
	if err != nil {
		return err
	}
	s.audit.end()
	return s.out.finish(s.buf)
}

// listEncoder converts the parts of a JSON list to an output format. Each method appends to dst, and
// may buffer data until the next call.
type listEncoder interface {
	// head appends the text before the items.
	head(dst []byte) ([]byte, error)
	// item appends an item, which follows a bracket or comma in raw.
	item(dst, raw []byte) ([]byte, error)
	// foot appends the text after the last item.
	foot(dst []byte) ([]byte, error)
	// whole appends a list without items.
	whole(dst, raw []byte) ([]byte, error)
}

func newListEncoder(t target, form *listForm) listEncoder {
	switch {
	case t.media == codec.YAML:
		return &yamlEncoder{form: form}
	case t.pretty && t.media == codec.JSON:
		return &prettyEncoder{form: form}
	}
	return compactEncoder{form}
}

// compactEncoder encodes compact JSON.
type compactEncoder struct{ form *listForm }

func (x compactEncoder) head(dst []byte) ([]byte, error)       { return append(dst, x.form.head...), nil }
func (x compactEncoder) item(dst, raw []byte) ([]byte, error)  { return append(dst, raw...), nil }
func (x compactEncoder) foot(dst []byte) ([]byte, error)       { return append(dst, "]"+foot...), nil }
func (x compactEncoder) whole(dst, raw []byte) ([]byte, error) { return append(dst, raw...), nil }

// prettyEncoder encodes JSON that is indented by json.Indent with two spaces.
type prettyEncoder struct {
	form    *listForm
	scratch bytes.Buffer
}

func (x *prettyEncoder) head(dst []byte) ([]byte, error) {
	x.scratch.Reset()
	if err := json.Indent(&x.scratch, append(bytes.Clone(x.form.head), "0}"...), "", "  "); err != nil {
		return nil, fmt.Errorf("format list: %w", err)
	}
	return append(dst, bytes.TrimSuffix(x.scratch.Bytes(), []byte("0\n}"))...), nil
}

func (x *prettyEncoder) item(dst, raw []byte) ([]byte, error) {
	x.scratch.Reset()
	if err := json.Indent(&x.scratch, raw[1:], "    ", "  "); err != nil {
		return nil, fmt.Errorf("format item of list: %w", err)
	}
	return append(append(append(dst, raw[0]), "\n    "...), x.scratch.Bytes()...), nil
}

func (x *prettyEncoder) foot(dst []byte) ([]byte, error) { return append(dst, "\n  ]\n"+foot...), nil }

func (x *prettyEncoder) whole(dst, raw []byte) ([]byte, error) {
	x.scratch.Reset()
	if err := json.Indent(&x.scratch, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("format list: %w", err)
	}
	return append(dst, x.scratch.Bytes()...), nil
}

// yamlEncoder encodes YAML. Fields are sorted, so there may be other fields after the array of items.
type yamlEncoder struct {
	form *listForm
	// rest is the text after the array.
	rest []byte
	// batch contains JSON items that have not been converted yet.
	batch []byte
}

func (x *yamlEncoder) head(dst []byte) ([]byte, error) {
	const empty = " []\n"
	text, err := yaml.JSONToYAML(append(bytes.Clone(x.form.head), "[]}"...))
	if err != nil {
		return nil, fmt.Errorf("encode list as YAML: %w", err)
	}
	name := lastField(x.form.head) + ":"
	before, after, found := bytes.Cut(append([]byte("\n"), text...), []byte("\n"+name+empty))
	if !found {
		return nil, fmt.Errorf("encode list as YAML: no field %s", name)
	}
	x.rest = after
	if len(before) > 0 {
		dst = append(append(dst, before[1:]...), '\n')
	}
	return append(append(dst, name...), '\n'), nil
}

// lastField returns the name of the last field in the head of a list.
func lastField(head []byte) string {
	head = bytes.TrimSuffix(head, []byte(`":`))
	return string(head[bytes.LastIndexByte(head, '"')+1:])
}

func (x *yamlEncoder) item(dst, raw []byte) ([]byte, error) {
	if len(x.batch) == 0 {
		x.batch = append(x.batch, '[')
	} else {
		x.batch = append(x.batch, ',')
	}
	x.batch = append(x.batch, raw[1:]...)
	if len(x.batch) < yamlBatchSize {
		return dst, nil
	}
	return x.convert(dst)
}

// convert appends the items of the batch as YAML. A top-level array has the same indentation as an
// array in a field of a document, so the text needs no change.
func (x *yamlEncoder) convert(dst []byte) ([]byte, error) {
	if len(x.batch) == 0 {
		return dst, nil
	}
	text, err := yaml.JSONToYAML(append(x.batch, ']'))
	if err != nil {
		return nil, fmt.Errorf("encode items of list as YAML: %w", err)
	}
	x.batch = x.batch[:0]
	return append(dst, text...), nil
}

func (x *yamlEncoder) foot(dst []byte) ([]byte, error) {
	dst, err := x.convert(dst)
	return append(dst, x.rest...), err
}

func (x *yamlEncoder) whole(dst, raw []byte) ([]byte, error) {
	text, err := yaml.JSONToYAML(bytes.TrimSpace(raw))
	if err != nil {
		return nil, fmt.Errorf("encode list as YAML: %w", err)
	}
	return append(dst, text...), nil
}
