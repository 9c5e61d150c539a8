package conformance

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
)

// replacementValues contains values of all JSON types.
var replacementValues = []any{
	nil, true, "", "x", "\u0000", "-1", "a/b", "2026-13-45T99:99:99Z", -1, 0, 1.5, 1e30, json.Number("9223372036854775808"),
	[]any{}, []any{nil}, map[string]any{}, map[string]any{"": nil}, map[string]any{"x": map[string]any{"x": []any{1, "x"}}},
}

// Mutate returns a copy of a JSON value with one change: a value is replaced, a key or element is removed, or
// an element is duplicated. The change depends only on r and value.
func Mutate(r *rand.Rand, value any) any {
	switch v := value.(type) {
	case map[string]any:
		if len(v) > 0 && r.IntN(6) > 0 {
			return mutateObject(r, v)
		}
	case []any:
		if len(v) > 0 && r.IntN(6) > 0 {
			return mutateList(r, v)
		}
	}
	return replacementValues[r.IntN(len(replacementValues))]
}

func mutateObject(r *rand.Rand, object map[string]any) any {
	object = maps.Clone(object)
	keys := slices.Sorted(maps.Keys(object))
	key := keys[r.IntN(len(keys))]
	switch r.IntN(10) {
	case 0:
		delete(object, key)
	case 1:
		object[key+"x"] = object[key]
	default:
		object[key] = Mutate(r, object[key])
	}
	return object
}

func mutateList(r *rand.Rand, list []any) any {
	list = slices.Clone(list)
	i := r.IntN(len(list))
	switch r.IntN(10) {
	case 0:
		return slices.Delete(list, i, i+1)
	case 1:
		return append(list, list[i])
	default:
		list[i] = Mutate(r, list[i])
		return list
	}
}
