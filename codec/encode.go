package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// ErrNoProtobuf says that a kind cannot be sent as protobuf.
var ErrNoProtobuf = errors.New("the kind has no protobuf form")

// A JSON object is split in two, so that its expensive part serves everywhere:
// the head names the type (and is left out in lists of typed kinds), the tail
// is the rest from after the head to the closing brace.

// JSONHead returns the beginning of an object's JSON that names its type.
func JSONHead(gvk schema.GroupVersionKind) []byte {
	head := make([]byte, 0, 48+len(gvk.Kind)+len(gvk.Group))
	head = append(head, `{"kind":`...)
	head = strconv.AppendQuote(head, gvk.Kind)
	head = append(head, `,"apiVersion":`...)
	head = strconv.AppendQuote(head, gvk.GroupVersion().String())
	return append(head, ',')
}

// JSONTail returns the object in version v as JSON without its opening brace
// and its type: `"metadata":{...},...}`. After JSONHead it makes a whole
// object, after a brace a list item without a type. The caller must not change
// it.
func (r *Record) JSONTail(v *Version) ([]byte, error) {
	if !v.isHub() {
		obj, err := r.in(v)
		if err != nil {
			return nil, err
		}
		return jsonTail(obj)
	}
	return r.memoised(&r.encodings.json, jsonTail)
}

// ProtobufMessage returns the object in version v as a protobuf message
// without magic and envelope. The caller must not change it.
func (r *Record) ProtobufMessage(v *Version) ([]byte, error) {
	if v.Untyped {
		return nil, ErrNoProtobuf
	}
	if !v.isHub() {
		obj, err := r.in(v)
		if err != nil {
			return nil, err
		}
		return protobufBody(obj)
	}
	return r.memoised(&r.encodings.protobuf, protobufBody)
}

type loadStorer interface {
	Load() *[]byte
	Store(*[]byte)
}

func (r *Record) memoised(memo loadStorer, encode func(Object) ([]byte, error)) ([]byte, error) {
	if b := memo.Load(); b != nil {
		return *b, nil
	}
	r.encodings.Lock()
	defer r.encodings.Unlock()
	if b := memo.Load(); b != nil {
		return *b, nil
	}
	obj, err := r.Shared()
	if err != nil {
		return nil, err
	}
	b, err := encode(obj)
	if err != nil {
		return nil, err
	}
	memo.Store(&b)
	return b, nil
}

// in returns a copy of the object in another version than the hub's.
func (r *Record) in(v *Version) (Object, error) {
	hub, err := r.Object()
	if err != nil {
		return nil, err
	}
	obj, err := v.FromHubTo(hub)
	if err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", r.kind.Hub.GVK.Kind, v.GVK.GroupVersion(), err)
	}
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	return obj, nil
}

// Object returns a copy of the record's object in version v, with its type
// set. The copy is the caller's.
func (v *Version) Object(r *Record) (Object, error) {
	if v.isHub() {
		return r.Object()
	}
	return r.in(v)
}

func jsonTail(obj Object) ([]byte, error) {
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(obj); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	b := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	return bytes.Clone(cutHead(b, obj.GetObjectKind().GroupVersionKind())), nil
}

// cutHead removes the type from an object's JSON. Typed objects and the head
// spell it the same way; untyped ones have their keys in order of the
// alphabet, so that apiVersion and kind come at some place of their own.
func cutHead(b []byte, gvk schema.GroupVersionKind) []byte {
	if tail, ok := bytes.CutPrefix(b, JSONHead(gvk)); ok {
		return tail
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		panic(fmt.Sprintf("codec: own encoding is no JSON object: %v", err))
	}
	delete(members, "kind")
	delete(members, "apiVersion")
	rest, err := json.Marshal(members)
	if err != nil {
		panic(fmt.Sprintf("codec: own encoding cannot be encoded again: %v", err))
	}
	return rest[1:]
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

// Append appends the whole record in version v and a media type, as the body
// of a response to a request for one object.
func (r *Record) Append(dst []byte, v *Version, media Media) ([]byte, error) {
	switch media {
	case Protobuf:
		message, err := r.ProtobufMessage(v)
		if err != nil {
			return nil, err
		}
		dst = AppendEnvelope(dst, v.GVK, len(message))
		return CloseEnvelope(append(dst, message...)), nil
	case YAML:
		obj, err := v.Object(r)
		if err != nil {
			return nil, err
		}
		return AppendObject(dst, obj, media)
	default:
		tail, err := r.JSONTail(v)
		if err != nil {
			return nil, err
		}
		dst = append(dst, JSONHead(v.GVK)...)
		return append(append(dst, tail...), '\n'), nil
	}
}

// AppendObject appends any object whose TypeMeta is set: a Status, a Table, a
// Scale. ErrNoProtobuf is returned for one that has no such form.
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
		buf := bytes.NewBuffer(dst)
		if err := json.NewEncoder(buf).Encode(obj); err != nil {
			return nil, fmt.Errorf("encode %T: %w", obj, err)
		}
		return buf.Bytes(), nil
	}
}
