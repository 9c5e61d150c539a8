package conversion

import (
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// objectError describes an invalid object in a response. where is the location of the error.
type objectError struct {
	where place
	text  string
}

func (u objectError) Error() string { return u.text }

type place int

const (
	inObject place = iota
	inType
	inMetadata // in metadata that a conversion may change
)

func objectErrorf(where place, format string, args ...any) error {
	return objectError{where, fmt.Sprintf(format, args...)}
}

// checkConverted decodes an object in the response and returns it. It returns an error if the object is not the
// original object in the requested version. The result has the metadata of the original, except for labels and
// annotations. The result shares memory with the original.
func checkConverted(original *unstructured.Unstructured, raw []byte, to schema.GroupVersion) (*unstructured.Unstructured, error) {
	converted, err := decode(raw)
	if err != nil {
		return nil, err
	}
	got := converted.GroupVersionKind()
	if got.GroupVersion() != to {
		return nil, objectErrorf(inType, "invalid groupVersion (expected %v, received %v)", to, got.GroupVersion())
	}
	if want := original.GetKind(); want != got.Kind {
		return nil, objectErrorf(inType, "invalid kind (expected %v, received %v)", want, got.Kind)
	}
	for _, same := range []struct {
		what      string
		want, got string
	}{
		{"name", original.GetName(), converted.GetName()},
		{"namespace", original.GetNamespace(), converted.GetNamespace()},
		{"UID", string(original.GetUID()), string(converted.GetUID())},
	} {
		if same.want != same.got {
			return nil, objectErrorf(inObject, "must have the same %s: %v != %v", same.what, same.want, same.got)
		}
	}
	if err := restoreMetadata(original, converted); err != nil {
		return nil, objectErrorf(inMetadata, "%v", err)
	}
	return converted, nil
}

func decode(raw []byte) (*unstructured.Unstructured, error) {
	converted := &unstructured.Unstructured{}
	if document, ok := jsonplan.DecodeDocument(raw); ok {
		converted.Object = document
		if converted.GetKind() != "" {
			return converted, nil
		}
	}
	if err := converted.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	return converted, nil
}

// restoreMetadata replaces the metadata of the converted object with the metadata of the original, except for
// labels and annotations. It modifies the metadata of the original.
func restoreMetadata(original, converted *unstructured.Unstructured) error {
	answered, found := converted.Object["metadata"]
	if !found {
		return fmt.Errorf("missing metadata in converted object")
	}
	theirs, ok := answered.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", answered)
	}
	ours, ok := original.Object["metadata"].(map[string]any)
	if !ok {
		ours = map[string]any{}
	}
	for _, name := range []string{"labels", "annotations"} {
		if err := replaceStringMap(ours, theirs, name); err != nil {
			return err
		}
	}
	converted.Object["metadata"] = ours
	return nil
}

// replaceStringMap replaces the labels or annotations in ours with those in theirs. It validates their keys and
// lengths only if they have changed.
func replaceStringMap(ours, theirs map[string]any, name string) error {
	answered := theirs[name]
	if answered == nil {
		delete(ours, name)
		return nil
	}
	next, ok := answered.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, answered)
	}
	before, _ := ours[name].(map[string]any)
	changed := len(before) != len(next)
	texts := make(map[string]string, len(next))
	for key, value := range next {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
		}
		changed = changed || before[key] != value
		texts[key] = text
	}
	ours[name] = answered
	if !changed {
		return nil
	}
	if name == "labels" {
		return faults(metav1validation.ValidateLabels(texts, field.NewPath("metadata", "labels")))
	}
	// kube-apiserver uses this field name.
	return faults(apivalidation.ValidateAnnotations(texts, field.NewPath("metadata", "annotation")))
}

func faults(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return errs.ToAggregate()
}
