package jsonplan

import (
	"slices"
	"strconv"
)

// document writes what a JSON document without a type decodes to.
func (w *writer) document(v any) {
	switch v := v.(type) {
	case nil:
		w.string("null")
	case string:
		w.buf = appendString(w.buf, v)
	case bool:
		w.buf = strconv.AppendBool(w.buf, v)
	case int64:
		w.buf = strconv.AppendInt(w.buf, v, 10)
	case float64:
		w.float(v, 64)
	case map[string]any:
		w.documentMap(v)
	case []any:
		w.documentList(v)
	default:
		w.any(v)
	}
}

func (w *writer) documentMap(m map[string]any) {
	if m == nil {
		w.string("null")
		return
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	for i, key := range w.sorted(base) {
		w.key(i, key)
		w.document(m[key])
	}
	w.endMap(base)
}

func (w *writer) documentList(list []any) {
	if list == nil {
		w.string("null")
		return
	}
	w.buf = append(w.buf, '[')
	for i, v := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.document(v)
	}
	w.buf = append(w.buf, ']')
}

// AppendMembers appends the members of a document that are not left out, as
// they stand in an object, with its closing brace.
func AppendMembers(dst []byte, document map[string]any, leaveOut ...string) ([]byte, bool) {
	w := writerPool.Get().(*writer)
	w.buf, w.readBack, w.failed = dst, false, false
	base := len(w.keys)
	for key := range document {
		if !slices.Contains(leaveOut, key) {
			w.keys = append(w.keys, key)
		}
	}
	for i, key := range w.sorted(base) {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(appendString(w.buf, key), ':')
		w.document(document[key])
	}
	clear(w.keys[base:])
	w.keys = w.keys[:base]
	out, failed := append(w.buf, '}'), w.failed
	w.buf = nil
	writerPool.Put(w)
	if failed {
		return dst, false
	}
	return out, true
}
