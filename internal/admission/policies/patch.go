package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonpatch"
	"mainstay.dev/mainstay/internal/rest"
)

// applyPatch applies the JSON patch made, which an expression returned, to an object. It returns nil if a test
// operation of the patch fails; the object then remains unchanged.
func applyPatch(version *codec.Version, obj codec.Object, made ref.Val) (codec.Object, error) {
	operations, err := policy.PatchOf(made)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	patch, err := jsonpatch.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	document, err := codec.AppendObject(nil, obj, codec.JSON)
	if err != nil {
		return nil, fmt.Errorf("failed to create JSON patch: %w", err)
	}
	changed, err := patch.Apply(make([]byte, 0, len(document)+len(text)), document)
	if errors.Is(err, jsonpatch.ErrTest) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("JSON Patch: %w", err)
	}
	result, err := version.Decode(changed, codec.JSON, true)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return result, nil
}

// converter returns the merge schemas for a resource.
func (c *Config) converter(r *rest.Resource) managedfields.TypeConverter {
	if r.TypeConverter != nil {
		return r.TypeConverter
	}
	return c.TypeConverter
}

// applyConfiguration merges the apply configuration made, which an expression returned, into an object.
// managedFields does not record an owner of the applied fields, so that a later write without the policy may
// remove them.
func applyConfiguration(version *codec.Version, converter managedfields.TypeConverter, obj codec.Object, made ref.Val) (codec.Object, error) {
	configuration, err := policy.ApplyConfigurationOf(made)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{Object: configuration}
	patch.SetGroupVersionKind(version.GVK)
	merged, err := merge(converter, obj, patch)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return toVersion(version, merged)
}

// toVersion converts a merged object to the Go type of its version.
func toVersion(version *codec.Version, merged runtime.Object) (codec.Object, error) {
	u, ok := merged.(*unstructured.Unstructured)
	if !ok {
		obj, ok := merged.(codec.Object)
		if !ok {
			return nil, fmt.Errorf("merge returned a %T", merged)
		}
		return obj, nil
	}
	u.SetGroupVersionKind(version.GVK)
	if version.Untyped {
		return u, nil
	}
	obj := version.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return obj, nil
}

func merge(converter managedfields.TypeConverter, obj codec.Object, patch *unstructured.Unstructured) (runtime.Object, error) {
	change, err := converter.ObjectToTyped(patch)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if atomic := atomicPaths(nil, change.Schema(), change.TypeRef(), change.AsValue()); len(atomic) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(atomic, ", "))
	}
	// Lists of an object may contain duplicate keys, such as two variables with the same name in env.
	live, err := converter.ObjectToTyped(obj, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	merged, err := live.Merge(change)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	return converter.TypedToObject(merged)
}

// atomicPaths returns the paths of the atomic lists, maps and structs in an apply configuration. They are
// rejected, because they would be replaced as a whole, while the author intends to set only the listed fields.
func atomicPaths(path []fieldpath.PathElement, s *schema.Schema, of schema.TypeRef, v value.Value) (found []string) {
	atom, ok := s.Resolve(of)
	switch {
	case !ok:
	case v.IsMap() && atom.Map != nil:
		if atom.Map.ElementRelationship == schema.Atomic {
			found = append(found, pathText(path))
		}
		v.AsMap().Iterate(func(key string, member value.Value) bool {
			if field, ok := atom.Map.FindField(key); ok {
				found = append(found, atomicPaths(append(path, fieldpath.PathElement{FieldName: &key}), s, field.Type, member)...)
			}
			return true
		})
	case v.IsList() && atom.List != nil:
		if atom.List.ElementRelationship == schema.Atomic {
			found = append(found, pathText(path))
		}
		list := v.AsList()
		for i := range list.Length() {
			found = append(found, atomicPaths(append(path, fieldpath.PathElement{Index: &i}), s, atom.List.ElementType, list.At(i))...)
		}
	}
	return found
}

func pathText(path []fieldpath.PathElement) string {
	var text strings.Builder
	for _, element := range path {
		text.WriteString(element.String())
	}
	return text.String()
}
