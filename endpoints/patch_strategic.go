package endpoints

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/endpoints/strategic"
	"mainstay.dev/mainstay/rest"
)

// strategicPatch makes the change of a strategic merge patch, which knows from
// the type how each list is to be merged.
func (c *call) strategicPatch(body []byte, manager string, options metav1.PatchOptions) (rest.UpdateFunc, error) {
	v := c.resource.Version
	schema, err := strategicpatch.NewPatchMetaFromStruct(v.New())
	if err != nil {
		return nil, fmt.Errorf("merge keys of %s: %w", v.GVK.Kind, err)
	}
	var patch map[string]any
	strict, err := decodePatch(body, &patch, options.FieldValidation)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, current codec.Object) (codec.Object, error) {
		if current == nil {
			return nil, apierrors.NewNotFound(c.resource.GroupResource(), c.info.Name)
		}
		versioned, err := c.versioned(current)
		if err != nil {
			return nil, err
		}
		original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", v.GVK.Kind, err)
		}
		// The merge changes the patch it is given, and may be made again.
		merged, err := mergeStrategic(original, runtime.DeepCopyJSON(patch), schema)
		if err != nil {
			return nil, strategicError(err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		obj, found, err := v.FromDocument(merged, options.FieldValidation != metav1.FieldValidationIgnore)
		if err != nil {
			return nil, invalidPatch(fmt.Sprintf("%+v", patch), err)
		}
		if len(found) > 0 && options.FieldValidation == metav1.FieldValidationStrict {
			return nil, invalidPatch(fmt.Sprintf("%+v", patch), runtime.NewStrictDecodingError(found))
		}
		if err := c.reportStrict(append(append([]error(nil), strict...), found...), options.FieldValidation); err != nil {
			return nil, err
		}
		hub, err := c.toHub(v, obj)
		if err != nil {
			return nil, err
		}
		return c.recordUpdate(current, hub, manager)
	}, nil
}

// mergeStrategic merges a patch into a document. The merge panics on some
// patches that are none, such as a list with a null among its members.
func mergeStrategic(original, patch map[string]any, schema strategic.Schema) (merged map[string]any, err error) {
	defer func() {
		if recover() != nil {
			merged, err = nil, inapplicable(nil)
		}
	}()
	return strategic.Merge(original, patch, schema)
}

// strategicError answers a patch that cannot be merged.
func strategicError(err error) error {
	if mergepatch.IsPreconditionFailed(err) || err == mergepatch.ErrBadJSONDoc || err == mergepatch.ErrBadPatchFormatForPrimitiveList {
		return apierrors.NewBadRequest(err.Error())
	}
	return asBadRequest(err)
}
