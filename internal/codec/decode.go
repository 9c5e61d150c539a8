package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
	"mainstay.dev/mainstay/internal/codec/precheck"
)

// protobufMagic is the prefix of every protobuf encoding of an API object.
var protobufMagic = [...]byte{'k', '8', 's', 0}

// Decode decodes an object that a client sent as version v. It does not set defaults, and does not
// convert.
//
// If strict is set and the body has unknown or duplicate fields, Decode returns both the object and
// a strict decoding error (runtime.IsStrictDecodingError). Any other error means that the body
// cannot be used; its message equals kube-apiserver's. A body without apiVersion and kind is decoded as
// version v, except if the version has an Accept function: kube-apiserver requires the kind of a
// custom resource.
func (v *Version) Decode(body []byte, media Media, strict bool) (Object, error) {
	obj, err := v.decode(body, media, strict)
	if strict && media != Protobuf && obj != nil && (err == nil || runtime.IsStrictDecodingError(err)) {
		err = v.addUnknownFields(obj, err)
	}
	if v.Accept == nil || obj == nil {
		return obj, err
	}
	if obj.GetObjectKind().GroupVersionKind().Kind == "" {
		return nil, decodingError(body, v.GVK.Kind, nil, runtime.NewMissingKindErr(string(body)))
	}
	return v.applyAccept(obj, strict, err)
}

// applyAccept calls the version's Accept function for a document. found is the result of strict
// decoding.
func (v *Version) applyAccept(obj Object, strict bool, found error) (Object, error) {
	unknown, err := v.Accept(obj, strict)
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return nil, err
	case err != nil:
		return nil, &UndecodableError{fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", v.GVK.Kind, v.GVK.Version, v.GVK.Kind, err), err}
	}
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	if len(unknown) == 0 {
		return obj, found
	}
	if before, ok := runtime.AsStrictDecodingError(found); ok {
		unknown = append(before.Errors(), unknown...)
	}
	return obj, runtime.NewStrictDecodingError(unknown)
}

// addUnknownFields adds UnknownFieldErrors to a strict decoding error, which may be nil.
func (v *Version) addUnknownFields(obj Object, found error) error {
	errs := v.UnknownFieldErrors(obj)
	if len(errs) == 0 {
		return found
	}
	if before, ok := runtime.AsStrictDecodingError(found); ok {
		errs = append(before.Errors(), errs...)
	}
	return runtime.NewStrictDecodingError(errs)
}

func (v *Version) decode(body []byte, media Media, strict bool) (Object, error) {
	if media == JSON {
		// One pass for the common case, a valid object of this version. An invalid object is decoded again
		// below to produce the error message. The strings of the object share the memory of the body; code
		// that retains a string for a long time should copy it.
		if obj, ok := v.decodePlainJSON(body, strict); ok {
			return obj, nil
		}
	}
	if media == YAML {
		if err := CheckYAML(body); err != nil {
			return nil, err
		}
	}
	if err := v.checkBody(body, media); isStatus(err) {
		return nil, err
	} else if err != nil {
		return nil, &UndecodableError{fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", v.GVK.Kind, v.GVK.Version, v.GVK.Kind, err), err}
	}
	decoded, gvk, err := v.serializer(media, strict).Decode(body, &v.GVK, v.decodeTarget())
	if err != nil && !runtime.IsStrictDecodingError(err) {
		return nil, decodingError(body, v.GVK.Kind, gvk, err)
	}
	obj, ok := decoded.(Object)
	if u, untyped := decoded.(*unstructured.Unstructured); untyped && isTooDeep(body, u.Object) {
		return nil, decodingError(body, v.GVK.Kind, gvk, errNesting)
	}
	if v.Accept != nil && ok {
		return obj, err // Accept checks the type
	}
	if !ok || !v.recognizes(*gvk) {
		return nil, &MismatchError{Got: *gvk, Want: v.GVK}
	}
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	return obj, err
}

func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// checkBody rejects a body that is too expensive to decode or to use; see package precheck. It returns an API
// error if the object needs too much memory.
func (v *Version) checkBody(body []byte, media Media) error {
	if v.Untyped {
		return v.ChargeDocument(body)
	}
	shape := precheck.ShapeOf(v.New())
	if shape == nil {
		return nil
	}
	switch media {
	case Protobuf:
		if message, ok := bytes.CutPrefix(body, protobufMagic[:]); ok {
			return shape.CheckProtobuf(message, v.charge)
		}
		return nil
	case YAML:
		if err := v.ChargeDocument(body); err != nil {
			return err
		}
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil
		}
		body = converted
	}
	return shape.CheckJSON(body, v.charge)
}

// decodeTarget returns the object into which the serializers decode. It is nil for typed objects, because
// the serializer creates a typed object after it has read the kind.
func (v *Version) decodeTarget() runtime.Object {
	if v.Untyped {
		return v.New()
	}
	return nil
}

func (v *Version) decodePlainJSON(body []byte, strict bool) (Object, bool) {
	obj := v.New()
	if v.Untyped {
		return v.decodePlainUntyped(obj, body, strict)
	}
	if jsonplan.Decode(body, obj, v.charge) {
		return obj, v.checkAndSetType(obj)
	}
	if v.checkBody(body, JSON) != nil {
		return nil, false
	}
	obj = v.New() // the failed attempt may have set fields
	if strict {
		strictErrs, err := kjson.UnmarshalStrict(body, obj)
		if err != nil || len(strictErrs) > 0 {
			return nil, false
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(body, obj); err != nil {
		return nil, false
	}
	return obj, v.checkAndSetType(obj)
}

func (v *Version) decodePlainUntyped(obj Object, body []byte, strict bool) (Object, bool) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || v.ChargeDocument(body) != nil {
		return nil, false
	}
	if content, ok := jsonplan.DecodeDocument(body); ok {
		u.Object = content
		return u, v.Accept != nil || v.checkAndSetType(u)
	}
	content := map[string]any{}
	if strict {
		strictErrs, err := kjson.UnmarshalStrict(body, &content)
		if err != nil || len(strictErrs) > 0 {
			return nil, false
		}
	} else if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &content); err != nil {
		return nil, false
	}
	u.Object = content
	return u, !isTooDeep(body, content) && (v.Accept != nil || v.checkAndSetType(u))
}

// maxNesting is the maximum nesting depth of an untyped object. JSON decoders accept 10000 levels, but the
// stored object, lists of the object and requests to webhooks are nested deeper than the client's object.
// For example, managed fields repeat the nesting of the object four levels deeper.
const maxNesting = 9000

var errNesting = fmt.Errorf("json parse error: exceeded max depth of %d", maxNesting)

// isTooDeep reports whether a document, decoded from body, has more than maxNesting levels. Each level
// takes at least one byte of the body, so small documents are not searched.
func isTooDeep(body []byte, document map[string]any) bool {
	return len(body) > maxNesting && deeperThan(document, maxNesting)
}

// deeperThan reports whether a document has more than limit levels.
func deeperThan(document any, limit int) bool {
	switch document := document.(type) {
	case map[string]any:
		if limit == 0 {
			return true
		}
		for _, member := range document {
			if deeperThan(member, limit-1) {
				return true
			}
		}
	case []any:
		return limit == 0 || slices.ContainsFunc(document, func(element any) bool { return deeperThan(element, limit-1) })
	}
	return false
}

// checkAndSetType sets the object's type to that of v. It returns false if the object already has a type
// that v does not recognize.
func (v *Version) checkAndSetType(obj Object) bool {
	kind := obj.GetObjectKind()
	if got := kind.GroupVersionKind(); !got.Empty() && !v.recognizes(got) {
		return false
	}
	kind.SetGroupVersionKind(v.GVK)
	return true
}

type serializer interface {
	Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error)
}

func (v *Version) serializer(media Media, strict bool) serializer {
	types := versionTypes{v}
	if media == Protobuf {
		return protobuf.NewSerializer(types, types)
	}
	return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, types, types,
		jsonserializer.SerializerOptions{Yaml: media == YAML, Strict: strict})
}

// versionTypes implements runtime.ObjectCreater and runtime.ObjectTyper for one version of one
// kind.
type versionTypes struct{ v *Version }

func (t versionTypes) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if !t.v.recognizes(gvk) {
		return nil, &MismatchError{Got: gvk, Want: t.v.GVK}
	}
	return t.v.New(), nil
}

func (t versionTypes) ObjectKinds(obj runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	if reflect.TypeOf(obj) != reflect.TypeOf(t.v.New()) {
		return nil, false, runtime.NewNotRegisteredErrForType("", reflect.TypeOf(obj))
	}
	return []schema.GroupVersionKind{t.v.GVK}, false, nil
}

func (t versionTypes) Recognizes(gvk schema.GroupVersionKind) bool { return t.v.recognizes(gvk) }

// recognizes reports whether v can decode objects of a type.
func (v *Version) recognizes(gvk schema.GroupVersionKind) bool {
	return gvk == v.GVK || slices.Contains(v.Aliases, gvk)
}

// MismatchError reports that the kind in a request body differs from the kind of the request path.
type MismatchError struct{ Got, Want schema.GroupVersionKind }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", e.Got.Kind, e.Got.Version, e.Want.Kind, e.Unwrap())
}

// Unwrap returns the error without the kind of the request path, which is unknown when a patch is decoded.
func (e *MismatchError) Unwrap() error {
	return fmt.Errorf("no kind %q is registered for version %q", e.Got.Kind, e.Got.GroupVersion())
}

// UndecodableError reports that a request body cannot be decoded as the kind that the request path
// requires. Error returns kube-apiserver's message, and Unwrap returns the cause.
type UndecodableError struct {
	message string
	err     error
}

func (e *UndecodableError) Error() string { return e.message }
func (e *UndecodableError) Unwrap() error { return e.err }

// decodingError returns an error with kube-apiserver's message for a decoding failure. The message contains
// the kind or, if the kind is unknown, the first bytes of the body.
func decodingError(body []byte, want string, got *schema.GroupVersionKind, err error) error {
	if mismatch, ok := err.(*MismatchError); ok {
		return mismatch
	}
	if got != nil && got.Kind != "" {
		return &UndecodableError{fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, want, err), err}
	}
	return &UndecodableError{fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want, err, excerpt(body)), err}
}

// excerpt returns the beginning of a body. The result is text if the body is probably JSON, and otherwise
// hexadecimal.
func excerpt(body []byte) string {
	const max = 30
	if len(body) == 0 {
		return "<empty>"
	}
	cut, more := body, ""
	if len(cut) > max {
		cut, more = cut[:max], " ..."
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return string(cut) + more
	}
	return fmt.Sprintf("%x%s", cut, more)
}

// UnmarshalDocument decodes a JSON or YAML document into a map, with integers as int64. unique is true if
// the document is known to have no duplicate keys; false means unknown. UnmarshalDocument returns an API
// error for a YAML document that is too expensive to parse, and an error for a document with too many levels.
func UnmarshalDocument(body []byte, into *map[string]any) (unique bool, err error) {
	unique, err = unmarshalDocument(body, into)
	if err == nil && !unique && isTooDeep(body, *into) {
		return false, errNesting
	}
	return unique, err
}

// unmarshalDocument implements UnmarshalDocument without the nesting limit.
func unmarshalDocument(body []byte, into *map[string]any) (unique bool, err error) {
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		if document, ok := jsonplan.DecodeDocument(body); ok {
			*into = document
			return true, nil
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(body, into); err == nil {
			return false, nil
		}
	}
	if err := CheckYAML(body); err != nil {
		return false, err
	}
	converted, err := yaml.YAMLToJSON(body)
	if err != nil {
		return false, err
	}
	return false, kjson.UnmarshalCaseSensitivePreserveInts(converted, into)
}

// CheckDocument rejects a JSON document that is too expensive to convert to an object of version v. It
// returns an API error for an object that needs too much memory, the errors of the charge (see WithCharge), and
// quantity.ErrOutOfRange for a quantity beyond the limits.
func (v *Version) CheckDocument(document map[string]any) error {
	if v.Untyped {
		return nil
	}
	return precheck.ShapeOf(v.New()).CheckDocument(document, v.charge)
}

// FromDocument creates an object of version v from a JSON document. The object may share memory
// with the document. If wantStrict is set, strict lists the unknown fields; they do not cause an
// error. FromDocument also returns the errors of CheckDocument.
func (v *Version) FromDocument(document map[string]any, wantStrict bool) (obj Object, strict []error, err error) {
	obj = v.New()
	if v.Untyped {
		obj.(*unstructured.Unstructured).Object = document
		return obj, nil, nil
	}
	if err := precheck.ShapeOf(obj).CheckDocument(document, v.charge); err != nil {
		return nil, nil, err
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(document, obj, wantStrict)
	if found, ok := runtime.AsStrictDecodingError(err); ok {
		strict, err = found.Errors(), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if wantStrict {
		strict = append(strict, v.UnknownFieldErrors(obj)...)
	}
	obj.GetObjectKind().SetGroupVersionKind(v.GVK)
	return obj, strict, nil
}
