package jsonplan

import (
	"slices"
	"strconv"
)

// document encodes a decoded JSON document (maps, slices and scalars).
func (w *writer) document(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return w.float(b, v, 64)
	case map[string]any:
		return w.documentMap(b, v)
	case []any:
		return w.documentList(b, v)
	}
	return w.any(b, v)
}

func (w *writer) documentMap(b []byte, m map[string]any) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	base := len(w.keys)
	for key := range m {
		w.keys = append(w.keys, key)
	}
	for i, key := range w.sorted(base) {
		b = w.document(appendKey(b, i, key), m[key])
	}
	return w.endMap(b, base)
}

func (w *writer) documentList(b []byte, list []any) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = w.document(b, v)
	}
	return append(b, ']')
}

// AppendMembers appends the members of a JSON object, sorted by name and without the names in leaveOut, and
// the closing brace. It returns dst and false if a value cannot be encoded.
func AppendMembers(dst []byte, document map[string]any, leaveOut ...string) ([]byte, bool) {
	w := writerPool.Get().(*writer)
	b := dst
	w.readBack, w.failed = false, false
	base := len(w.keys)
	for key := range document {
		if !slices.Contains(leaveOut, key) {
			w.keys = append(w.keys, key)
		}
	}
	for i, key := range w.sorted(base) {
		if i > 0 {
			b = append(b, ',')
		}
		b = w.document(append(appendString(b, key), ':'), document[key])
	}
	clear(w.keys[base:])
	w.keys = w.keys[:base]
	out, failed := append(b, '}'), w.failed
	writerPool.Put(w)
	if failed {
		return dst, false
	}
	return out, true
}
