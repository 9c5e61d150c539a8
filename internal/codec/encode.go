package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// ErrNoProtobuf reports that a kind, such as the kind of a custom resource, has no protobuf encoding.
var ErrNoProtobuf = errors.New("the kind has no protobuf form")

// The JSON encoding of an object has two parts, so that the expensive part can be shared: the head
// with kind and apiVersion, which lists of typed kinds omit, and the tail with the remaining
// members and the closing brace.

// JSONHead returns the beginning of an object's JSON encoding: the opening brace, kind, apiVersion,
// and a comma.
func JSONHead(gvk schema.GroupVersionKind) []byte {
	return appendJSONHead(make([]byte, 0, maxJSONHeadSize(gvk)), gvk)
}

// maxJSONHeadSize returns an upper bound for the length of JSONHead.
func maxJSONHeadSize(gvk schema.GroupVersionKind) int {
	return 48 + len(gvk.Kind) + len(gvk.Group) + len(gvk.Version)
}

func appendJSONHead(dst []byte, gvk schema.GroupVersionKind) []byte {
	dst = append(dst, `{"kind":`...)
	dst = strconv.AppendQuote(dst, gvk.Kind)
	dst = append(dst, `,"apiVersion":`...)
	dst = strconv.AppendQuote(dst, gvk.GroupVersion().String())
	return append(dst, ',')
}

// JSONTail returns the JSON encoding of the object in version v without the opening brace and the type:
// `"metadata":{...},...}`. Appended to JSONHead, the tail forms a complete object; appended to an opening
// brace, it forms a list item without a type. The result may be shared and must not be modified. JSONTail
// returns ErrNotConverted if Convert must be called first.
func (r *Record) JSONTail(v *Version) ([]byte, error) {
	if !v.isHub() {
		obj, err := r.convertTo(v)
		if err != nil {
			return nil, err
		}
		return jsonTail(obj)
	}
	if stored, ok := r.storedTail(); ok {
		return stored.append(make([]byte, 0, stored.size()), r.revision), nil
	}
	return r.cachedEncoding(&r.json, r.encodeTail)
}

// AppendSharedJSONTail appends the result of JSONTail to dst, and caches the encoding. It is meant for
// watches, which share encodings. On error, it returns dst.
func (r *Record) AppendSharedJSONTail(dst []byte, v *Version) ([]byte, error) {
	if v.isHub() {
		if stored, ok := r.storedTail(); ok {
			return stored.append(dst, r.revision), nil
		}
	}
	tail, err := r.JSONTail(v)
	if err != nil {
		return dst, err
	}
	return append(dst, tail...), nil
}

// AppendJSONTail appends the result of JSONTail to dst. It is meant for lists. It caches the encoding only
// if no other encoding must be evicted, because a list larger than the cache would evict the encodings of
// watches. On error, it returns dst.
func (r *Record) AppendJSONTail(dst []byte, v *Version) ([]byte, error) {
	if v.isHub() {
		if stored, ok := r.storedTail(); ok {
			return stored.append(dst, r.revision), nil
		}
		if e := r.json.Load(); e != nil {
			r.kind.EncodingCache.hit(e)
			return append(dst, e.data...), nil
		}
		// A tail is rarely larger than three times the stored value.
		if !r.kind.EncodingCache.hasRoom(3 * len(r.value)) {
			r.kind.EncodingCache.miss()
			return r.appendTail(dst)
		}
	}
	tail, err := r.JSONTail(v)
	if err != nil {
		return dst, err
	}
	return append(dst, tail...), nil
}

// cachedEncoding returns the encoding in memo. If memo is empty, it calls encode and stores the result.
func (r *Record) cachedEncoding(memo *atomic.Pointer[encoding], encode func() ([]byte, error)) ([]byte, error) {
	if e := memo.Load(); e != nil {
		r.kind.EncodingCache.hit(e)
		return e.data, nil
	}
	r.encoding.Lock()
	defer r.encoding.Unlock()
	if e := memo.Load(); e != nil {
		r.kind.EncodingCache.hit(e)
		return e.data, nil
	}
	b, err := encode()
	if err != nil {
		return nil, err
	}
	r.kind.EncodingCache.miss()
	if _, ok := r.storedTail(); ok && memo == &r.json {
		return b, nil // encode found that the stored bytes can be sent instead
	}
	r.kind.EncodingCache.store(r, memo, b)
	return b, nil
}

// encodeTail encodes the tail in the hub version.
func (r *Record) encodeTail() ([]byte, error) {
	if d := r.object.Load(); d != nil && d.asWritten && r.kind.storesHub() && !r.kind.StoredAsJSON {
		if b, ok := jsonplan.MarshalReadBack(d.Object); ok {
			if tail, ok := bytes.CutPrefix(b, JSONHead(r.kind.Hub.GVK)); ok {
				return tail, nil
			}
		}
	}
	obj, err := r.Shared()
	if err != nil {
		return nil, err
	}
	tail, err := jsonTail(obj)
	if err == nil {
		r.compareStored(tail)
	}
	return tail, err
}

// appendTail appends the tail in the hub version to dst. It does not cache the encoding.
func (r *Record) appendTail(dst []byte) ([]byte, error) {
	obj, err := r.Shared()
	if err != nil {
		return dst, err
	}
	start := len(dst)
	if out, ok := appendDocumentTail(dst, obj); ok {
		r.compareStored(out[start:])
		return out, nil
	}
	whole, err := jsonplan.Append(dst, obj)
	if err != nil {
		return dst, fmt.Errorf("encode %T: %w", obj, err)
	}
	tail, err := cutHead(whole[start:], obj)
	if err != nil {
		return dst, err
	}
	return append(whole[:start], tail...), nil
}

// ProtobufSize returns the size of the output of AppendProtobuf, in bytes. It returns ErrNoProtobuf
// for an untyped version.
func (r *Record) ProtobufSize(v *Version) (int, error) {
	if s, ok := r.splice(v); ok {
		return s.size(), nil
	}
	message, err := r.protobufMessage(v)
	return len(message), err
}

// AppendProtobuf appends the object in version v as a protobuf message, without magic and envelope. It copies
// the stored message if an encoding of the object would be identical. It returns ErrNoProtobuf for an untyped
// version.
func (r *Record) AppendProtobuf(dst []byte, v *Version) ([]byte, error) {
	if s, ok := r.splice(v); ok {
		return s.append(dst), nil
	}
	message, err := r.protobufMessage(v)
	if err != nil {
		return dst, err
	}
	return append(dst, message...), nil
}

func (r *Record) splice(v *Version) (splice, bool) {
	if !r.exact.Load() || !v.isHub() {
		return splice{}, false
	}
	return spliceOf(r.value, r.revision)
}

func (r *Record) protobufMessage(v *Version) ([]byte, error) {
	if v.Untyped {
		return nil, ErrNoProtobuf
	}
	if !v.isHub() {
		obj, err := r.convertTo(v)
		if err != nil {
			return nil, err
		}
		return protobufBody(obj)
	}
	return r.cachedEncoding(&r.protobuf, r.encodeProtobuf)
}

// encodeProtobuf encodes the message in the hub version. If the stored message with the revision inserted is
// identical, it sets r.exact, and later calls copy the stored message.
func (r *Record) encodeProtobuf() ([]byte, error) {
	obj, err := r.Shared()
	if err != nil {
		return nil, err
	}
	b, err := protobufBody(obj)
	if err != nil {
		return nil, err
	}
	if r.value != nil && r.kind.storesHub() {
		if s, ok := spliceOf(r.value, r.revision); ok && s.size() == len(b) && bytes.Equal(s.append(make([]byte, 0, len(b))), b) {
			r.exact.Store(true)
		}
	}
	return b, nil
}

// convertTo returns a copy of the object in a version other than the hub version.
func (r *Record) convertTo(v *Version) (Object, error) {
	hub, err := r.Object()
	if err != nil {
		return nil, err
	}
	obj, err := v.ConvertFromHub(hub)
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", r.kind.Hub.GVK.Kind, v.GVK.GroupVersion(), err)
	}
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	return obj, nil
}

// Object returns a copy of the record's object in version v, with its type set. The caller owns the
// copy. It returns ErrNotConverted if Convert must be called first.
func (v *Version) Object(r *Record) (Object, error) {
	if v.isHub() {
		return r.Object()
	}
	return r.convertTo(v)
}

func jsonTail(obj Object) ([]byte, error) {
	if tail, ok := appendDocumentTail(nil, obj); ok {
		return tail, nil
	}
	b, err := jsonplan.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return cutHead(b, obj)
}

// appendDocumentTail appends the tail of an untyped object. It returns false for other objects.
func appendDocumentTail(dst []byte, obj Object) ([]byte, bool) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return dst, false
	}
	return jsonplan.AppendMembers(dst, u.Object, "kind", "apiVersion")
}

// cutHead removes the type from the JSON encoding of an object. The encoding of typed objects
// starts like JSONHead. Untyped objects have sorted keys, so apiVersion and kind may be anywhere.
func cutHead(b []byte, obj Object) ([]byte, error) {
	if tail, ok := bytes.CutPrefix(b, JSONHead(obj.GetObjectKind().GroupVersionKind())); ok {
		return tail, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, fmt.Errorf("read the encoding of %T: %w", obj, err)
	}
	delete(members, "kind")
	delete(members, "apiVersion")
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encode %T again: %w", obj, err)
	}
	return rest[1:], nil
}

func protobufBody(obj Object) ([]byte, error) {
	message, ok := obj.(protobufMessage)
	if !ok {
		return nil, ErrNoProtobuf
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	b, err := appendMessage(nil, message, message.Size())
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return b, nil
}

// Append appends the complete object in version v, encoded as media, which is the response body for a
// single object. It returns ErrNoProtobuf if media is Protobuf and the version has no protobuf encoding.
func (r *Record) Append(dst []byte, v *Version, media Media) ([]byte, error) {
	switch media {
	case Protobuf:
		return r.appendWhole(dst, v)
	case YAML:
		obj, err := v.Object(r)
		if err != nil {
			return nil, err
		}
		return AppendObject(dst, obj, media)
	default:
		if stored, ok := r.storedTail(); ok && v.isHub() {
			dst = appendJSONHead(slices.Grow(dst, maxJSONHeadSize(v.GVK)+stored.size()), v.GVK)
			return append(stored.append(dst, r.revision), '\n'), nil
		}
		tail, err := r.JSONTail(v)
		if err != nil {
			return nil, err
		}
		dst = appendJSONHead(slices.Grow(dst, maxJSONHeadSize(v.GVK)+len(tail)+1), v.GVK)
		return append(append(dst, tail...), '\n'), nil
	}
}

// appendWhole appends the record in protobuf, with magic and envelope.
func (r *Record) appendWhole(dst []byte, v *Version) ([]byte, error) {
	size, err := r.ProtobufSize(v)
	if err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, EnvelopeSize(v.GVK, size))
	dst, err = r.AppendProtobuf(AppendEnvelope(dst, v.GVK, size), v)
	if err != nil {
		return nil, err
	}
	return CloseEnvelope(dst), nil
}

// AppendObject appends an object that is not a record, such as a Status, Table or Scale, with its TypeMeta.
// It returns ErrNoProtobuf for an object without a protobuf encoding.
func AppendObject(dst []byte, obj runtime.Object, media Media) ([]byte, error) {
	switch media {
	case Protobuf:
		if !HasProtobuf(obj) {
			return nil, ErrNoProtobuf
		}
		return appendProtobuf(dst, obj.GetObjectKind().GroupVersionKind(), obj)
	case YAML:
		b, err := yaml.Marshal(obj)
		if err != nil {
			return nil, fmt.Errorf("encode %T as YAML: %w", obj, err)
		}
		return append(dst, b...), nil
	default:
		b, err := jsonplan.Append(dst, obj)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", obj, err)
		}
		return append(b, '\n'), nil
	}
}
