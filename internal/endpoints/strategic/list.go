package strategic

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/mergepatch"
)

// list specifies how the list in one member of an object is merged.
type list struct {
	elements Schema
	strategy string
	// mergeKey is the name of the member that identifies objects in the list. It is empty for lists whose
	// elements are not objects.
	mergeKey string
}

func listOf(schema Schema, key string) (list, error) {
	elements, meta, err := schema.LookupPatchMetadataForSlice(key)
	if err != nil {
		return list{}, err
	}
	strategy, err := strategyOf(meta)
	return list{elements, strategy, meta.GetPatchMergeKey()}, err
}

// merge merges the list in a patch into the original list. If deletes is true, patch contains the elements
// to delete.
func (l list) merge(original, patch []any, deletes bool) ([]any, error) {
	if l.strategy != strategyMerge && !deletes {
		return patch, nil
	}
	if len(original) == 0 && len(patch) == 0 {
		return original, nil
	}
	objects, err := areObjects(original, patch)
	if err != nil {
		return nil, err
	}
	var merged []any
	switch {
	case !objects && deletes:
		return without(original, patch), nil
	case !objects:
		merged = unique(append(original, patch...))
	case l.mergeKey == "":
		return nil, fmt.Errorf("cannot merge lists without merge key for %s", l.elements.Name())
	default:
		if original, patch, err = l.applyDirectives(original, patch); err != nil {
			return nil, err
		}
		if merged, err = l.mergeObjects(original, patch); err != nil {
			return nil, err
		}
	}
	return l.arrange(merged, patch, original, objects)
}

// areObjects reports whether the elements of lists are objects. It returns an error if the elements
// have different types or are lists.
func areObjects(lists ...[]any) (bool, error) {
	var first reflect.Type
	for _, list := range lists {
		for _, element := range list {
			t := reflect.TypeOf(element)
			switch {
			case first == nil && t.Kind() == reflect.Slice: // panics for null
				return false, mergepatch.ErrNoListOfLists
			case first == nil:
				first = t
			case first != t:
				return false, fmt.Errorf("list element types are not identical: %v", fmt.Sprint(lists))
			}
		}
	}
	if first == nil {
		return false, fmt.Errorf("no elements in any of the given slices")
	}
	return first.Kind() == reflect.Map, nil
}

// applyDirectives applies the directives among the elements of a patch. It returns the remaining elements
// of both lists.
func (l list) applyDirectives(original, patch []any) (left, ordinary []any, err error) {
	ordinary = []any{}
	var doomed []any
	replace := false
	for _, element := range patch {
		object := element.(map[string]any)
		how, ok := object[directive]
		if !ok {
			ordinary = append(ordinary, element)
			continue
		}
		switch how {
		case strategyDelete:
			key, ok := object[l.mergeKey]
			if !ok {
				return nil, nil, mergepatch.ErrNoMergeKey(object, l.mergeKey)
			}
			doomed = append(doomed, key)
		case strategyReplace:
			replace = true
		case strategyMerge:
			return nil, nil, fmt.Errorf("merging lists cannot yet be specified in the patch")
		default:
			return nil, nil, mergepatch.ErrBadPatchType(how, object)
		}
	}
	original = l.delete(original, doomed)
	if replace {
		return ordinary, nil, nil
	}
	return original, ordinary, nil
}

// delete deletes the elements with the given keys, in place. strategicpatch deletes elements one at a time,
// and each deletion leaves a copy of the last element behind the end of the list. delete leaves the same
// copies, because they affect the order if elements are added later.
func (l list) delete(elements, keys []any) []any {
	if len(keys) == 0 {
		return elements
	}
	keyPositions := map[any][]int{}
	for i, element := range elements {
		if key, ok := element.(map[string]any)[l.mergeKey]; ok {
			keyPositions[key] = append(keyPositions[key], i)
		}
	}
	gone := make([]bool, len(elements))
	last, n := len(elements)-1, len(elements)
	tail := make([]any, len(elements))
	for _, key := range keys {
		for _, i := range keyPositions[key] {
			for gone[last] {
				last--
			}
			n--
			tail[n] = elements[last]
			gone[i] = true
		}
		delete(keyPositions, key)
	}
	kept := 0
	for i, element := range elements {
		if !gone[i] {
			elements[kept] = element
			kept++
		}
	}
	copy(elements[n:], tail[n:])
	return elements[:n]
}

// mergeObjects merges the elements of a patch into the elements with the same key, and appends the remaining
// elements of the patch.
func (l list) mergeObjects(original, patch []any) ([]any, error) {
	if len(patch) == 0 {
		return original, nil
	}
	keyPositions := keyPositionsOf(original, l.mergeKey)
	for _, element := range patch {
		object := element.(map[string]any)
		key, ok := object[l.mergeKey]
		if !ok {
			return nil, mergepatch.ErrNoMergeKey(object, l.mergeKey)
		}
		i, found := keyPositions.first[key]
		if !found {
			keyPositions.first[key] = len(original)
			original = append(original, element)
			continue
		}
		merged, err := mergeMap(original[i].(map[string]any), object, l.elements)
		if err != nil {
			return nil, err
		}
		original[i] = merged
	}
	return original, nil
}

// mergeOrdered merges a list for which a patch specifies the order. key is the name of the $setElementOrder
// member. mergeOrdered removes the order and the list from the patch.
func mergeOrdered(original, patch map[string]any, key string, schema Schema) error {
	value := patch[key]
	delete(patch, key)
	order, ok := value.([]any)
	if !ok {
		return mergepatch.ErrBadArgType(order, value)
	}
	name, ok := strings.CutPrefix(key, setOrder+"/")
	if !ok {
		return mergepatch.ErrBadPatchFormatForSetElementOrderList
	}
	have, had, err := listIn(original, name)
	if err != nil {
		return err
	}
	want, wanted, err := listIn(patch, name)
	if err != nil {
		return err
	}
	l, err := listOf(schema, name)
	if err != nil {
		return err
	}
	if err := l.checkOrder(want, order); err != nil {
		return err
	}
	var merged []any
	switch {
	case !had && !wanted:
		return nil
	case !wanted:
		merged = have
	case !had:
		kept, _ := withoutDirectives(want)
		merged = kept.([]any)
	default:
		if merged, err = l.merge(have, want, false); err != nil {
			return err
		}
	}
	objects, err := areObjects(have, want)
	if err != nil {
		return err
	}
	arranged, err := l.arrange(merged, order, have, objects)
	if err != nil {
		return err
	}
	original[name] = arranged
	delete(patch, name)
	return nil
}

func listIn(object map[string]any, name string) (elements []any, found bool, err error) {
	value, found := object[name]
	if !found {
		return nil, false, nil
	}
	elements, ok := value.([]any)
	if !ok {
		return nil, false, mergepatch.ErrBadArgType(elements, value)
	}
	return elements, true, nil
}

// checkOrder returns an error if the list in a patch is not in the order that the patch specifies.
func (l list) checkOrder(elements, order []any) error {
	if len(order) == 0 || len(elements) == 0 {
		return nil
	}
	ordinary := elements
	if l.mergeKey != "" {
		var err error
		if ordinary, _, err = splitDeletions(elements); err != nil {
			return err
		}
	}
	i, k := 0, 0
	for i < len(ordinary) && k < len(order) {
		if object, ok := ordinary[i].(map[string]any); ok {
			if _, special := object[directive]; special {
				i++
				continue
			}
		}
		same, err := l.same(ordinary[i], order[k])
		if err != nil {
			return err
		}
		if same {
			i++
		}
		k++
	}
	if i < len(ordinary) && k >= len(order) {
		return fmt.Errorf("The order in patch list:\n%v\n doesn't match %s list:\n%v\n", elements, setOrder, order) //lint:ignore ST1005 the text that clients of kube-apiserver see
	}
	return nil
}

// same reports whether two elements have the same merge key or, in a list without a merge key, are equal.
func (l list) same(a, b any) (bool, error) {
	if l.mergeKey == "" {
		return a == b, nil
	}
	x, err := l.keyOf(a)
	if err != nil {
		return false, err
	}
	y, err := l.keyOf(b)
	return err == nil && x == y, err
}

// keyOf returns the merge key of an element, or an error if the element has no merge key.
func (l list) keyOf(element any) (any, error) {
	object, ok := element.(map[string]any)
	if !ok {
		return nil, mergepatch.ErrBadArgType(object, element)
	}
	key, ok := object[l.mergeKey]
	if !ok {
		return nil, mergepatch.ErrNoMergeKey(object, l.mergeKey)
	}
	return key, nil
}
