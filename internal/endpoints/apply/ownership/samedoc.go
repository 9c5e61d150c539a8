package ownership

import "reflect"

// sameDocument reports whether structured-merge-diff would consider two JSON values equal when it compares
// Go values. Numbers are compared by value, but in lists also by type.
func sameDocument(l, r any) bool {
	switch l := l.(type) {
	case map[string]any:
		r, ok := r.(map[string]any)
		return ok && sameEntries(l, r, sameDocument)
	case []any:
		r, ok := r.([]any)
		return ok && reflect.DeepEqual(l, r)
	}
	return sameNumber(l, r)
}

// sameValue reports whether two JSON values are equal. It does not compare the content of values that share
// memory.
func sameValue(l, r any) bool {
	switch l := l.(type) {
	case map[string]any:
		r, ok := r.(map[string]any)
		return ok && (sameMemory(l, r) || sameEntries(l, r, sameValue))
	case []any:
		r, ok := r.([]any)
		if !ok || len(l) != len(r) {
			return false
		}
		if sameMemory(l, r) {
			return true
		}
		for i := range l {
			if !sameValue(l[i], r[i]) {
				return false
			}
		}
		return true
	}
	return sameNumber(l, r)
}

func sameEntries(l, r map[string]any, same equalFunc) bool {
	if len(l) != len(r) {
		return false
	}
	for name, lv := range l {
		if rv, ok := r[name]; !ok || !same(lv, rv) {
			return false
		}
	}
	return true
}

// sameNumber compares l, which is a scalar or null, with r.
func sameNumber(l, r any) bool {
	switch l := l.(type) {
	case int64:
		if r, ok := r.(float64); ok {
			return float64(l) == r
		}
	case float64:
		if r, ok := r.(int64); ok {
			return l == float64(r)
		}
	}
	switch r.(type) {
	case map[string]any, []any:
		return false
	}
	return l == r
}

// sameMemory reports whether two values are the same map or list in memory. It returns false for
// scalars, nil maps and empty lists.
func sameMemory(l, r any) bool {
	switch l := l.(type) {
	case map[string]any:
		r, ok := r.(map[string]any)
		return ok && l != nil && reflect.ValueOf(l).UnsafePointer() == reflect.ValueOf(r).UnsafePointer()
	case []any:
		r, ok := r.([]any)
		return ok && len(l) > 0 && len(l) == len(r) && &l[0] == &r[0]
	}
	return false
}
