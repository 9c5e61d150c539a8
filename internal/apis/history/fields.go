package history

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// changedFields returns the paths of the fields that differ between two states of an object. If there are more
// than MaxFields, it returns MaxFields paths, and truncated is true.
func changedFields(before, after map[string]any) (paths []string, truncated bool) {
	d := fieldDiff{}
	d.compareObjects("", WithoutNoise(before), WithoutNoise(after))
	if len(d.paths) > MaxFields {
		return d.paths[:MaxFields], true
	}
	return d.paths, false
}

// WithoutNoise returns an object without the metadata fields that every write changes. It does not modify
// its argument; the result may share memory with it.
func WithoutNoise(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return object
	}
	object, metadata = maps.Clone(object), maps.Clone(metadata)
	for _, name := range []string{"managedFields", "resourceVersion", "generation"} {
		delete(metadata, name)
	}
	object["metadata"] = metadata
	return object
}

// fieldDiff collects the paths of changed fields.
type fieldDiff struct{ paths []string }

func (d *fieldDiff) compare(path string, before, after any) {
	if len(d.paths) > MaxFields {
		return
	}
	switch a := after.(type) {
	case map[string]any:
		if b, ok := before.(map[string]any); ok {
			d.compareObjects(path, b, a)
			return
		}
	case []any:
		if b, ok := before.([]any); ok {
			d.compareLists(path, b, a)
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		d.paths = append(d.paths, path)
	}
}

func (d *fieldDiff) compareObjects(path string, before, after map[string]any) {
	for _, name := range sortedKeys(before, after) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		d.compare(at, before[name], after[name])
	}
}

// sortedKeys returns the keys of both maps, sorted and without duplicates.
func sortedKeys(before, after map[string]any) []string {
	names := slices.Collect(maps.Keys(after))
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// compareLists pairs the elements of two lists and compares each pair. It pairs the elements by the first of
// the fields name, key, type and uid that has unique values in both lists. If there is no such field, it pairs
// elements with the same index.
func (d *fieldDiff) compareLists(path string, before, after []any) {
	for _, key := range []string{"name", "key", "type", "uid"} {
		b, okBefore := byKey(before, key)
		a, okAfter := byKey(after, key)
		if !okBefore || !okAfter {
			continue
		}
		for _, name := range sortedKeys(b, a) {
			d.compare(path+"["+name+"]", b[name], a[name])
		}
		return
	}
	for i := range max(len(before), len(after)) {
		var b, a any
		if i < len(before) {
			b = before[i]
		}
		if i < len(after) {
			a = after[i]
		}
		d.compare(path+"["+strconv.Itoa(i)+"]", b, a)
	}
}

// byKey indexes the elements of a list by the string in the field key. ok is false if an element has no string
// or an empty one in the field, or if two elements have the same string.
func byKey(list []any, key string) (elements map[string]any, ok bool) {
	elements = make(map[string]any, len(list))
	for _, element := range list {
		object, _ := element.(map[string]any)
		name, _ := object[key].(string)
		if _, double := elements[name]; double || name == "" {
			return nil, false
		}
		elements[name] = element
	}
	return elements, true
}
