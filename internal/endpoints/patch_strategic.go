package endpoints

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/strategic"
	"mainstay.dev/mainstay/internal/rest"
)

// strategicPatch returns the UpdateFunc of a strategic merge patch, which merges lists according to their
// type.
func (c *call) strategicPatch(body []byte, manager string, options metav1.PatchOptions) (rest.UpdateFunc, error) {
	v := c.charged(c.resource.Version)
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
		wantStrict := options.FieldValidation != metav1.FieldValidationIgnore
		obj, found, err := mergeInto(v, versioned, patch, schema, wantStrict)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found = slices.Concat(strict, found)
		if len(found) > 0 && options.FieldValidation == metav1.FieldValidationStrict {
			return nil, invalidPatch(fmt.Sprintf("%+v", patch), runtime.NewStrictDecodingError(found))
		}
		c.warnStrict(found)
		hub, err := c.toHub(v, obj)
		if err != nil {
			return nil, err
		}
		return c.recordUpdate(current, hub, manager)
	}, nil
}

// mergeInto returns an object into which a patch was merged, and the strict decoding errors.
func mergeInto(v *codec.Version, obj codec.Object, patch map[string]any, schema strategic.Schema, wantStrict bool) (codec.Object, []error, error) {
	p, some := partOf(v, obj, patch)
	if !some {
		return mergeIntoWhole(v, obj, patch, schema, wantStrict)
	}
	changed, strict, err := mergeIntoWhole(v, p.part, patch, schema, wantStrict)
	if err != nil {
		return nil, nil, err
	}
	return p.with(changed), strict, nil
}

func mergeIntoWhole(v *codec.Version, obj codec.Object, patch map[string]any, schema strategic.Schema, wantStrict bool) (codec.Object, []error, error) {
	original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", v.GVK.Kind, err)
	}
	// The merge modifies its copy of the patch; the original is needed again after a conflict.
	merged, err := mergeStrategic(original, runtime.DeepCopyJSON(patch), schema)
	if err != nil {
		return nil, nil, strategicError(err)
	}
	out, strict, err := v.FromDocument(merged, wantStrict)
	if isExhausted(err) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, invalidPatch(fmt.Sprintf("%+v", patch), err)
	}
	if len(strict) > 0 {
		strict = newErrors(strict, v, obj)
	}
	return out, strict, nil
}

// mergeStrategic merges a patch into a document. The library panics on some invalid patches, such as a list
// that contains null.
func mergeStrategic(original, patch map[string]any, schema strategic.Schema) (merged map[string]any, err error) {
	defer func() {
		if recover() != nil {
			merged, err = nil, inapplicable(nil)
		}
	}()
	return strategic.Merge(original, patch, schema)
}

// strategicError returns the API error for a patch that cannot be merged.
func strategicError(err error) error {
	if mergepatch.IsPreconditionFailed(err) || err == mergepatch.ErrBadJSONDoc || err == mergepatch.ErrBadPatchFormatForPrimitiveList {
		return apierrors.NewBadRequest(err.Error())
	}
	return asBadRequest(err)
}
