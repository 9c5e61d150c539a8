package endpoints

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/rest"
)

// applyPatch makes the change of an applied configuration (KEP-555). It also
// creates what is not there.
func (c *call) applyPatch(body []byte, manager string, options metav1.PatchOptions) (rest.UpdateFunc, error) {
	m, err := c.api.managers.For(c.resource)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, errPatchType()
	}
	content, isJSON, err := decodeApplied(body)
	if err != nil {
		return nil, err
	}
	if options.FieldValidation == metav1.FieldValidationStrict {
		if err := checkStrictDocument(body, isJSON); err != nil {
			return nil, err
		}
	}
	force := options.Force != nil && *options.Force
	return func(_ context.Context, current codec.Object) (codec.Object, error) {
		if current == nil {
			current = c.newHub()
		}
		applied := (&unstructured.Unstructured{Object: content}).DeepCopy()
		if applied.GetName() == "" {
			applied.SetName(c.info.Name)
		}
		if got := applied.GroupVersionKind(); got != c.resource.Version.GVK {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
		}
		merged, err := m.Apply(current, applied, manager, force)
		if err != nil {
			return nil, asBadRequest(err)
		}
		return c.completed(merged), nil
	}, nil
}

// decodeApplied reads a configuration. JSON is YAML too, but much sooner read
// as what it is.
func decodeApplied(body []byte) (content map[string]any, isJSON bool, err error) {
	content = map[string]any{}
	isJSON, err = codec.UnmarshalDocument(body, &content)
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return nil, isJSON, err
	}
	if err != nil {
		return nil, isJSON, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if len(content) == 0 {
		return nil, isJSON, apierrors.NewBadRequest("an applied configuration must be an object with apiVersion, kind and metadata.name")
	}
	return content, isJSON, nil
}

// checkStrictDocument refuses members that are there twice. What JSON has no
// fault in is no YAML with one; faults get YAML's words.
func checkStrictDocument(body []byte, isJSON bool) error {
	if isJSON {
		if strict, err := kjson.UnmarshalStrict(body, &map[string]any{}); err == nil && len(strict) == 0 {
			return nil
		}
	}
	if err := yaml.UnmarshalStrict(body, &map[string]any{}); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
	}
	return nil
}

// completed gives the fields that nobody applied their defaults. Typed objects
// have them from when they got their type.
func (c *call) completed(merged codec.Object) codec.Object {
	v := c.resource.Version
	if !v.Untyped || v.Default == nil {
		return merged
	}
	merged = merged.DeepCopyObject().(codec.Object) // may share memory with the live object
	v.Default(merged)
	return merged
}
