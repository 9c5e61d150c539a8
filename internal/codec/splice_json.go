package codec

import (
	"bytes"
	"math"
	"strconv"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// Encoded is an object that already has its stored encoding, because a caller edited the stored bytes
// directly. Only the name and namespace of the object must be set. Encoded is meant for kinds that are
// stored as JSON; only storage accepts such objects.
type Encoded interface {
	Object
	// StoredEncoding returns the bytes to store instead of encoding the object. They must not be modified.
	StoredEncoding() []byte
}

// storedTail locates the result of JSONTail in a stored or converted JSON value. The tail starts at begin,
// and the resourceVersion is inserted at position at.
type storedTail struct {
	value     []byte
	begin, at int
	// comma means that a comma must precede the resourceVersion.
	comma bool
}

// storedTail locates the tail in the stored or converted value. It returns false if encoding the
// object might give a different result.
func (r *Record) storedTail() (storedTail, bool) {
	if at := int(r.revisionAt.Load()); at > 0 {
		return storedTail{value: r.value, begin: jsonHeadSize(r.kind.Hub), at: at}, true
	}
	if !r.kind.StoredAsJSON || !r.exact.Load() {
		return r.convertedTail()
	}
	return storedTailOf(r.value, r.kind.Hub)
}

// beforeRevision lists the members of metadata that precede resourceVersion.
var beforeRevision = [...]string{`"name":"`, `"generateName":"`, `"namespace":"`, `"selfLink":"`, `"uid":"`} //nolint:gochecknoglobals // constant

func storedTailOf(value []byte, v *Version) (t storedTail, ok bool) {
	head := JSONHead(v.GVK)
	const metadata = `"metadata":{`
	if !bytes.HasPrefix(value, head) || !bytes.HasPrefix(value[len(head):], []byte(metadata)) {
		return t, false
	}
	t.value, t.begin = value, len(head)
	at := t.begin + len(metadata)
	for _, member := range beforeRevision {
		next := at
		if t.comma {
			if !bytes.HasPrefix(value[next:], []byte{','}) {
				break
			}
			next++
		}
		if !bytes.HasPrefix(value[next:], []byte(member)) {
			continue
		}
		next += len(member)
		end := bytes.IndexByte(value[next:], '"')
		if end < 0 || bytes.IndexByte(value[next:next+end], '\\') >= 0 {
			return t, false
		}
		at, t.comma = next+end+1, true
	}
	rest := bytes.TrimPrefix(value[at:], []byte(","))
	t.at = at
	return t, len(rest) > 0 && value[len(value)-1] == '}' && !bytes.HasPrefix(rest, []byte(`"resourceVersion"`))
}

func (t *storedTail) size() int { return len(t.value) - t.begin + 42 }

func (t *storedTail) append(dst []byte, revision int64) []byte {
	dst = append(dst, t.value[t.begin:t.at]...)
	if revision != 0 {
		if t.comma {
			dst = append(dst, ',')
		}
		dst = append(dst, `"resourceVersion":"`...)
		dst = strconv.AppendInt(dst, revision, 10)
		dst = append(dst, '"')
		if !t.comma && t.value[t.at] != '}' {
			dst = append(dst, ',')
		}
	}
	return append(dst, t.value[t.at:]...)
}

// compareStored compares the stored tail with the encoded tail of the object. If they are equal,
// later responses use the stored bytes.
func (r *Record) compareStored(tail []byte) {
	switch {
	case r.value == nil || r.conversion != nil:
	case r.kind.Hub.Untyped:
		r.compareDocument(tail)
	case r.kind.StoredAsJSON && r.kind.storesHub():
		if t, ok := storedTailOf(r.value, r.kind.Hub); ok && bytes.Equal(t.append(make([]byte, 0, t.size()), r.revision), tail) {
			r.exact.Store(true)
		}
	}
}

// compareDocument is like compareStored, for untyped objects. Their members are sorted, so apiVersion and
// kind come first unless another name sorts before "kind". In metadata, the resourceVersion precedes the
// UID.
func (r *Record) compareDocument(tail []byte) {
	begin := jsonHeadSize(r.kind.Hub)
	if !bytes.HasPrefix(r.value, documentHead(r.kind.Hub)) {
		return
	}
	stored := r.value[begin:]
	at := commonPrefix(stored, tail) - 1 // the common prefix includes the quotation mark of the next name
	if at <= 0 {
		return
	}
	t := storedTail{value: r.value, begin: begin, at: begin + at}
	if bytes.HasPrefix(stored[at:], []byte{'"'}) && t.size() < math.MaxInt32 &&
		bytes.Equal(t.append(make([]byte, 0, t.size()), r.revision), tail) {
		r.revisionAt.Store(int32(t.at))
	}
}

// documentHead returns the beginning of a stored untyped object. It has the same length as
// JSONHead.
func documentHead(v *Version) []byte {
	head := append(make([]byte, 0, jsonHeadSize(v)), `{"apiVersion":`...)
	head = strconv.AppendQuote(head, v.GVK.GroupVersion().String())
	head = append(head, `,"kind":`...)
	return append(strconv.AppendQuote(head, v.GVK.Kind), ',')
}

// jsonHeadSize returns the length of JSONHead.
func jsonHeadSize(v *Version) int {
	size := len(`{"kind":"","apiVersion":"",`) + len(v.GVK.Kind) + len(v.GVK.Version)
	if v.GVK.Group != "" {
		size += len(v.GVK.Group) + len("/")
	}
	return size
}

// commonPrefix returns the length of the common prefix of two slices.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// encodeStoredJSON implements EncodeStored for kinds that are stored as JSON.
func (v *Version) encodeStoredJSON(obj Object) ([]byte, error) {
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	return jsonplan.Marshal(obj)
}
