package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kjson "sigs.k8s.io/json"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonpatch"
	"mainstay.dev/mainstay/internal/codec/jsontext"
	"mainstay.dev/mainstay/internal/endpoints/mergepatch"
	"mainstay.dev/mainstay/internal/rest"
)

// documentPatcher is a patch that changes an object's JSON document.
type documentPatcher interface {
	// apply returns the changed document, and the strict decoding errors of the patch. err is an API error.
	apply(document []byte) (changed []byte, strict []error, err error)
	// show formats a changed document for the error message if it is no longer a valid object.
	show(changed []byte) string
	// members returns the top-level fields that the patch changes, or nil if it may change any
	// field.
	members() map[string]any
}

// documentPatch returns the UpdateFunc of a patch of the object's JSON document. The function encodes the
// current object in the requested version, applies the patch, and decodes the result.
func (c *call) documentPatch(patch documentPatcher, manager string, options metav1.PatchOptions) rest.UpdateFunc {
	v := c.charged(c.resource.Version)
	return func(ctx context.Context, current codec.Object) (codec.Object, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(c.resource.GroupResource(), c.info.Name)
		}
		versioned, err := c.versioned(current)
		if err != nil {
			return nil, err
		}
		obj, strict, err := changeByDocument(v, versioned, patch, options.FieldValidation)
		if err != nil {
			return nil, err
		}
		c.warnStrict(strict)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hub, err := c.toHub(v, obj)
		if err != nil {
			return nil, err
		}
		return c.recordUpdate(current, hub, manager)
	}
}

// changeByDocument returns the patched object and the strict decoding errors of the patch and of the object. It returns
// an API error if there are such errors and fieldValidation is Strict.
func changeByDocument(v *codec.Version, obj codec.Object, patch documentPatcher, fieldValidation string) (codec.Object, []error, error) {
	if members := patch.members(); members != nil {
		if p, some := partOf(v, obj, members); some {
			changed, strict, err := changeDocument(v, p.part, patch, fieldValidation)
			if err == nil {
				return p.with(changed), strict, nil
			}
			// Patch the whole document again, because the error message quotes it.
		}
	}
	return changeDocument(v, obj, patch, fieldValidation)
}

func changeDocument(v *codec.Version, obj codec.Object, patch documentPatcher, fieldValidation string) (codec.Object, []error, error) {
	document, err := codec.AppendObject(nil, obj, codec.JSON)
	if err != nil {
		return nil, nil, fmt.Errorf("encode %s: %w", v.GVK.Kind, err)
	}
	changed, strict, err := patch.apply(document)
	if err != nil {
		return nil, nil, err
	}
	out, err := v.Decode(changed, codec.JSON, fieldValidation != metav1.FieldValidationIgnore)
	if isExhausted(err) {
		return nil, nil, err
	}
	if err != nil {
		decoding, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			return nil, nil, invalidPatch(patch.show(changed), decodingCause(err))
		}
		strict = slices.Concat(strict, newErrors(decoding.Errors(), v, obj))
	}
	if len(strict) > 0 && fieldValidation == metav1.FieldValidationStrict {
		return nil, nil, invalidPatch(patch.show(changed), runtime.NewStrictDecodingError(strict))
	}
	return out, strict, nil
}

// newErrors removes from found the strict decoding errors that the object already had before the patch.
// They are about fields that a server of a newer version has written.
func newErrors(found []error, v *codec.Version, obj codec.Object) []error {
	before := v.UnknownFieldErrors(obj)
	return slices.DeleteFunc(found, func(err error) bool {
		return slices.ContainsFunc(before, func(b error) bool { return b.Error() == err.Error() })
	})
}

// decodingCause returns a decoding error without its outermost message, which describes a request body.
func decodingCause(err error) error {
	type unwrapper interface{ Unwrap() error }
	if u, ok := err.(unwrapper); ok && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return err
}

// mergePatch is a JSON merge patch (RFC 7386).
type mergePatch struct {
	patch  *mergepatch.Patch
	fields map[string]any
	strict []error
}

func parseMergePatch(body []byte, fieldValidation string) (documentPatcher, error) {
	var members map[string]any
	strict, err := decodePatch(body, &members, fieldValidation)
	if err != nil {
		return nil, err
	}
	patch, err := mergepatch.Parse(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return mergePatch{patch, members, strict}, nil
}

func (p mergePatch) apply(document []byte) ([]byte, []error, error) {
	changed, err := p.patch.Apply(make([]byte, 0, len(document)+256), document)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return changed, p.strict, nil
}

func (p mergePatch) show(changed []byte) string { return string(p.patch.Sorted(changed)) }
func (p mergePatch) members() map[string]any    { return p.fields }

// decodePatch decodes a patch. Unless fieldValidation is Ignore, it also returns the strict decoding
// errors.
func decodePatch(body []byte, into any, fieldValidation string) (strict []error, err error) {
	if fieldValidation == metav1.FieldValidationIgnore {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, into)
	} else {
		strict, err = kjson.UnmarshalStrict(body, into)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return strict, nil
}

// jsonPatch is a JSON patch (RFC 6902).
type jsonPatch struct {
	patch  *jsonpatch.Patch
	strict []error
}

// jsonPatchOp is an operation of a JSON patch.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func parseJSONPatch(body []byte, fieldValidation string) (documentPatcher, error) {
	if n := countOperations(body); n > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, n))
	}
	var known []jsonPatchOp
	strict, err := decodePatch(body, &known, fieldValidation)
	if err != nil {
		return nil, err
	}
	for i, problem := range strict {
		strict[i] = fmt.Errorf("json patch %w", problem)
	}
	patch, err := jsonpatch.Parse(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	for _, op := range known {
		if op.Path == "" && op.Value == nil && (op.Op == "add" || op.Op == "replace") {
			return nil, inapplicable(nil) // the patch removes the whole object
		}
	}
	return jsonPatch{patch, strict}, nil
}

// countOperations returns the number of operations in a JSON patch, without decoding them, because a million
// empty operations fit into a request. It returns 0 for a body that is too small to exceed the limit or that is
// not a JSON list.
func countOperations(body []byte) int {
	const minOperation = len("{},")
	if len(body) < minOperation*maxJSONPatchOperations || !json.Valid(body) {
		return 0
	}
	i := jsontext.Space(body, 0)
	if body[i] != '[' {
		return 0
	}
	n := 0
	for i = jsontext.Space(body, i+1); body[i] != ']'; n++ {
		i = jsontext.Next(body, jsontext.Skip(body, i))
	}
	return n
}

func (p jsonPatch) apply(document []byte) ([]byte, []error, error) {
	changed, err := p.patch.Apply(make([]byte, 0, len(document)+256), document)
	if errors.Is(err, jsonpatch.ErrCopied) || errors.Is(err, jsonpatch.ErrWork) {
		return nil, nil, inapplicable(err)
	}
	if err != nil {
		return nil, nil, inapplicable(nil)
	}
	return changed, p.strict, nil
}

func (p jsonPatch) show(changed []byte) string { return string(changed) }
func (p jsonPatch) members() map[string]any    { return nil }
