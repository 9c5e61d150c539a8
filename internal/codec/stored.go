package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// ErrUndecodable reports that a stored value is not a valid object of its kind.
var ErrUndecodable = errors.New("stored object cannot be decoded")

// EncodeStored encodes an object of the hub version for storage, in the stored version and without
// resourceVersion. As in kube-apiserver, typed kinds are encoded in protobuf unless StoredAsJSON is set,
// and other kinds in JSON. EncodeStored may set the object's TypeMeta and default values, but does not
// modify the object otherwise. It must not be called concurrently for the same object. It may block if
// Kind.Convert is set; ctx limits the conversion. It returns the error of the conversion or of the
// encoding. The result does not share memory with obj.
func (k *Kind) EncodeStored(ctx context.Context, obj Object) ([]byte, error) {
	if encoded, ok := obj.(Encoded); ok {
		return encoded.StoredEncoding(), nil
	}
	rv := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	defer obj.SetResourceVersion(rv)

	v := k.stored()
	out := obj
	if !v.isHub() {
		converted, err := k.fromHub(ctx, obj.DeepCopyObject().(Object), v)
		if err != nil {
			return nil, fmt.Errorf("convert %s to its stored version: %w", v.GVK.Kind, err)
		}
		out = converted
	}
	if v.Default != nil && !v.Untyped {
		v.Default(out)
	}
	if v.Untyped || k.StoredAsJSON {
		return v.encodeStoredJSON(out)
	}
	return appendProtobuf(nil, v.GVK, out)
}

// fromHub converts an object of the hub version to v. The argument must not be used afterwards.
func (k *Kind) fromHub(ctx context.Context, obj Object, v *Version) (Object, error) {
	if k.Convert == nil {
		return v.FromHub(obj)
	}
	converted, err := k.Convert(ctx, []Object{obj}, v)
	if err != nil {
		return nil, err
	}
	return converted[0], nil
}

// DecodeStored decodes a value that EncodeStored or kube-apiserver wrote in protobuf or JSON, in any known
// version. The returned object has the hub version, default values, and the given resourceVersion. The
// caller owns the object, but it may share memory with value. Errors wrap ErrUndecodable.
func (k *Kind) DecodeStored(value []byte, revision int64) (Object, error) {
	var obj Object
	var err error
	if bytes.HasPrefix(value, protobufMagic[:]) {
		obj, err = k.decodeStoredProtobuf(value)
	} else {
		obj, err = k.decodeStoredJSON(value)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUndecodable, k.Hub.GVK.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.Hub.GVK)
	setRevision(obj, revision)
	return obj, nil
}

func (k *Kind) decodeStoredProtobuf(value []byte) (Object, error) {
	envelope, err := readEnvelope(value)
	if err != nil {
		return nil, fmt.Errorf("read envelope: %w", err)
	}
	v, err := k.storedVersion(envelope.APIVersion, envelope.Kind)
	if err != nil {
		return nil, err
	}
	obj := v.New()
	message, ok := obj.(protobufMessage)
	if !ok {
		return nil, errors.New("the kind has no protobuf form")
	}
	if err := message.Unmarshal(envelope.Raw); err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	return v.toHub(obj)
}

// readEnvelope decodes the envelope of a stored protobuf value. The message may share memory with
// value.
func readEnvelope(value []byte) (envelope runtime.Unknown, err error) {
	value = value[len(protobufMagic):]
	if typeMeta, rest, ok := cutField(value, tagTypeMeta); ok {
		var end [envelopeTail]byte
		message, rest, ok := cutField(rest, tagRaw)
		if ok && bytes.Equal(rest, CloseEnvelope(end[:0])) {
			envelope.Raw = message
			return envelope, envelope.TypeMeta.Unmarshal(typeMeta)
		}
	}
	return envelope, envelope.Unmarshal(value) // not in the format of AppendEnvelope
}

func (k *Kind) decodeStoredJSON(value []byte) (Object, error) {
	if k.Hub.Untyped {
		u, v, err := k.decodeDocument(value)
		if err != nil {
			return nil, err
		}
		return v.toHub(u)
	}
	if obj, ok := k.decodePlainStored(value); ok {
		return k.Hub.toHub(obj)
	}
	var meta runtime.TypeMeta
	if err := json.Unmarshal(value, &meta); err != nil {
		return nil, fmt.Errorf("read type: %w", err)
	}
	v, err := k.storedVersion(meta.APIVersion, meta.Kind)
	if err != nil {
		return nil, err
	}
	obj := v.New()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value, obj); err != nil {
		return nil, err
	}
	return v.toHub(obj)
}

// decodePlainStored decodes a JSON value of a typed kind whose stored version is the hub version.
// It returns false if the general decoder must be used.
func (k *Kind) decodePlainStored(value []byte) (Object, bool) {
	if !k.StoredAsJSON || !k.storesHub() {
		return nil, false
	}
	obj := k.Hub.New()
	ok := jsonplan.Decode(value, obj, nil)
	return obj, ok && obj.GetObjectKind().GroupVersionKind() == k.Hub.GVK
}

func (k *Kind) storedVersion(apiVersion, kind string) (*Version, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	v := k.Version(gv)
	if v == nil || v.GVK.Kind != kind {
		return nil, fmt.Errorf("contains %s of %s", kind, apiVersion)
	}
	return v, nil
}
