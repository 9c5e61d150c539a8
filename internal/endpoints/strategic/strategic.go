// Package strategic applies strategic merge patches to documents. Tags of Go types specify which lists are
// sets and which member identifies the elements of a set. The results are identical to those of
// k8s.io/apimachinery/pkg/util/strategicpatch, including the order of elements, which is not specified
// elsewhere. The time grows linearly, not quadratically, with the size of lists.
package strategic

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// The directives of a patch.
const (
	directive        = "$patch"
	retainKeys       = "$retainKeys"
	deletePrimitives = "$deleteFromPrimitiveList"
	setOrder         = "$setElementOrder"
)

// Values of the directive $patch, and names of merge strategies.
const (
	strategyDelete     = "delete"
	strategyReplace    = "replace"
	strategyMerge      = "merge"
	strategyRetainKeys = "retainKeys"
)

// Schema describes the merge strategies and merge keys of the members of a type.
type Schema = strategicpatch.LookupPatchMeta

// Merge returns original with patch merged into it. It modifies both, and the result shares memory
// with them. It returns an error for an invalid patch, which may have modified both. Like
// strategicpatch, it panics for lists that contain null, and for merge keys that are not
// comparable.
func Merge(original, patch map[string]any, schema Schema) (map[string]any, error) {
	return mergeMap(original, patch, schema)
}

func mergeMap(original, patch map[string]any, schema Schema) (map[string]any, error) {
	if how, ok := patch[directive]; ok {
		switch how {
		case strategyReplace:
			delete(patch, directive)
			return patch, nil
		case strategyDelete:
			return map[string]any{}, nil
		}
		return nil, mergepatch.ErrBadPatchType(how, patch)
	}
	if original == nil {
		original = map[string]any{}
	}
	if err := retain(original, patch); err != nil {
		return nil, err
	}
	// The sorted order makes the result deterministic: directives delete elements from a list before the
	// list is merged.
	keys := slices.Sorted(maps.Keys(patch))
	for _, key := range keys {
		if strings.HasPrefix(key, setOrder) {
			if err := mergeOrdered(original, patch, key, schema); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range keys {
		value, left := patch[key]
		if !left {
			continue // already merged by mergeOrdered
		}
		if err := mergeMember(original, key, value, schema); err != nil {
			return nil, err
		}
	}
	return original, nil
}

// retain removes the members of original that the patch does not list in $retainKeys.
func retain(original, patch map[string]any) error {
	value, ok := patch[retainKeys]
	if !ok {
		return nil
	}
	delete(patch, retainKeys)
	list, ok := value.([]any)
	if !ok {
		return mergepatch.ErrBadPatchFormatForRetainKeys
	}
	retained := make(map[any]struct{}, len(list))
	for _, key := range list {
		retained[key] = struct{}{}
	}
	for key, value := range patch {
		if value == nil || strings.HasPrefix(key, deletePrimitives) || strings.HasPrefix(key, setOrder) {
			continue
		}
		if _, ok := retained[key]; !ok {
			return mergepatch.ErrBadPatchFormatForRetainKeys
		}
	}
	maps.DeleteFunc(original, func(key string, _ any) bool {
		_, ok := retained[key]
		return !ok
	})
	return nil
}

// mergeMember merges one member of a patch.
func mergeMember(original map[string]any, key string, value any, schema Schema) error {
	deletes := strings.HasPrefix(key, deletePrimitives)
	if deletes {
		name, ok := strings.CutPrefix(key, deletePrimitives+"/")
		if !ok {
			return mergepatch.ErrBadPatchFormatForPrimitiveList
		}
		if name != "" {
			key = name
		}
	}
	if value == nil {
		delete(original, key)
		return nil
	}
	current, ok := original[key]
	if !ok || reflect.TypeOf(current) != reflect.TypeOf(value) {
		if !deletes {
			dropNulls(value)
			setWithoutDirectives(original, key, value)
		}
		return nil
	}
	switch current := current.(type) {
	case map[string]any:
		below, meta, err := schema.LookupPatchMetadataForStruct(key)
		if err != nil {
			return err
		}
		strategy, err := strategyOf(meta)
		if err != nil {
			return err
		}
		if strategy == strategyReplace {
			original[key] = value
			return nil
		}
		merged, err := mergeMap(current, value.(map[string]any), below)
		original[key] = merged
		return err
	case []any:
		l, err := listOf(schema, key)
		if err != nil {
			return err
		}
		merged, err := l.merge(current, value.([]any), deletes)
		original[key] = merged
		return err
	}
	setWithoutDirectives(original, key, value)
	return nil
}

// strategyOf returns the merge strategy of a member. It ignores retainKeys, because the patch
// itself specifies the retained keys.
func strategyOf(meta strategicpatch.PatchMeta) (string, error) {
	strategies := meta.GetPatchStrategies()
	switch {
	case len(strategies) == 0:
		return "", nil
	case len(strategies) == 1 && strategies[0] == strategyRetainKeys:
		return "", nil
	case len(strategies) == 1:
		return strategies[0], nil
	case len(strategies) == 2 && strategies[0] == strategyRetainKeys:
		return strategies[1], nil
	case len(strategies) == 2 && strategies[1] == strategyRetainKeys:
		return strategies[0], nil
	}
	return "", fmt.Errorf("unexpected patch strategy: %v", strategies)
}

// dropNulls removes all null members of objects.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			if member == nil {
				delete(value, key)
				continue
			}
			dropNulls(member)
		}
	case []any:
		for _, element := range value {
			dropNulls(element)
		}
	}
}

func setWithoutDirectives(object map[string]any, key string, value any) {
	if kept, keep := withoutDirectives(value); keep {
		object[key] = kept
		return
	}
	delete(object, key)
}

// withoutDirectives returns a value of a patch without the objects that contain a directive. keep
// is false if the value itself is such an object.
func withoutDirectives(value any) (kept any, keep bool) {
	switch value := value.(type) {
	case map[string]any:
		if _, ok := value[directive]; ok {
			return nil, false
		}
		for key, member := range value {
			if kept, keep := withoutDirectives(member); keep {
				value[key] = kept
				continue
			}
			delete(value, key)
		}
	case []any:
		if value == nil {
			return value, true
		}
		list := make([]any, 0, len(value))
		for _, element := range value {
			if kept, keep := withoutDirectives(element); keep {
				list = append(list, kept)
			}
		}
		return list, true
	}
	return value, true
}
