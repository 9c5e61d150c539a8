package endpoints

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/apply"
	"mainstay.dev/mainstay/internal/rest"
)

// applyPatch returns the UpdateFunc of an apply patch (KEP-555), which also creates a missing object.
func (c *call) applyPatch(body []byte, manager string, options metav1.PatchOptions) (rest.UpdateFunc, error) {
	m := c.api.managers.For(c.resource)
	if m == nil {
		return nil, errPatchType()
	}
	content, unique, err := decodeApplied(body)
	if err != nil {
		return nil, err
	}
	if err := c.charged(c.resource.Version).CheckDocument(content); err != nil {
		return nil, asBadRequest(err)
	}
	if !unique {
		if err := c.checkDuplicates(body, options.FieldValidation); err != nil {
			return nil, err
		}
	}
	return c.applyFunc(m, content, manager, options.Force != nil && *options.Force), nil
}

// applyFunc returns the UpdateFunc that applies a configuration for a manager. It does not modify content.
func (o *operation) applyFunc(fields *apply.Manager, content map[string]any, manager string, force bool) rest.UpdateFunc {
	return func(_ context.Context, current codec.Object) (codec.Object, error) {
		create := current == nil
		if create {
			current = o.newHub()
		}
		applied := &unstructured.Unstructured{Object: content}
		if applied.GetName() == "" {
			applied = applied.DeepCopy()
			applied.SetName(o.info.Name)
		}
		if got := applied.GroupVersionKind(); got != o.resource.Version.GVK {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
		}
		merged, err := fields.Apply(current, applied, manager, force)
		if err != nil {
			return nil, asBadRequest(err)
		}
		if uid := merged.GetUID(); create && uid != "" {
			return nil, apierrors.NewConflict(o.resource.GroupResource(), o.info.Name,
				fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		return o.withDefaults(merged), nil
	}
}

// decodeApplied decodes an applied configuration. JSON is valid YAML, but the JSON decoder is much faster.
// unique has the meaning of codec.UnmarshalDocument.
func decodeApplied(body []byte) (content map[string]any, unique bool, err error) {
	content = map[string]any{}
	unique, err = codec.UnmarshalDocument(body, &content)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return nil, false, err
	}
	if err != nil {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if len(content) == 0 {
		return nil, false, apierrors.NewBadRequest("an applied configuration must be an object with apiVersion, kind and metadata.name")
	}
	return content, unique, nil
}

// checkDuplicates adds warnings for duplicate members or rejects them, as fieldValidation specifies. The
// messages come from the YAML decoder, except for JSON that is too expensive for it.
func (c *call) checkDuplicates(body []byte, fieldValidation string) error {
	if fieldValidation == metav1.FieldValidationIgnore {
		return nil
	}
	strict, err := kjson.UnmarshalStrict(body, &map[string]any{})
	switch {
	case err == nil && len(strict) == 0:
		return nil
	case err == nil && codec.CheckYAML(body) != nil:
		err = errors.Join(strict...)
	default:
		err = yaml.UnmarshalStrict(body, &map[string]any{})
	}
	if err == nil {
		return nil
	}
	if fieldValidation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
	}
	c.warnStrictErrors(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	return nil
}

// keepNulls copies each null member of before to after, unless after has the member. It skips the metadata
// of resources, which must not contain nulls.
func keepNulls(before, after any) {
	switch before := before.(type) {
	case map[string]any:
		after, ok := after.(map[string]any)
		if !ok {
			return
		}
		_, isResource := before["kind"]
		for name, v := range before {
			if name == "metadata" && isResource {
				continue
			}
			if left, found := after[name]; found {
				keepNulls(v, left)
			} else if v == nil {
				after[name] = nil
			}
		}
	case []any:
		if after, ok := after.([]any); ok && len(after) == len(before) {
			for i := range before {
				keepNulls(before[i], after[i])
			}
		}
	}
}
