package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// keyOf returns the key of a list map's entry, or false if the entry is not an object. keys is sorted. The key
// contains only members that the entry has, so that the time depends on the size of the entry and not on the
// number of keys.
func keyOf(keys []string, entry any) (string, bool) {
	members, ok := entry.(map[string]any)
	if !ok {
		return "", false
	}
	var b []byte
	add := func(key int, value any) bool {
		encoded, err := json.Marshal(value)
		b = append(strconv.AppendInt(b, int64(key), 10), ':')
		b = append(append(b, encoded...), ',')
		return err == nil
	}
	if len(members) < len(keys) {
		for _, name := range sortedKeys(members) {
			if i, isKey := slices.BinarySearch(keys, name); isKey && !add(i, members[name]) {
				return "", false
			}
		}
		return string(b), true
	}
	for i, key := range keys {
		if value, found := members[key]; found && !add(i, value) {
			return "", false
		}
	}
	return string(b), true
}

// byKeys returns the entries of a list map, indexed by key. Of entries with equal keys, the result contains the
// first one.
func byKeys(keys []string, list []any) map[string]any {
	entries := make(map[string]any, len(list))
	for _, entry := range list {
		if key, ok := keyOf(keys, entry); ok {
			if _, twice := entries[key]; !twice {
				entries[key] = entry
			}
		}
	}
	return entries
}

// Unchanged reports whether two values are equal, ignoring the order of entries in list maps. s is their
// schema; if it is nil, no list is treated as a list map.
func (s *Schema) Unchanged(value, old any) bool {
	if s == nil {
		return reflect.DeepEqual(value, old)
	}
	switch value := value.(type) {
	case map[string]any:
		was, ok := old.(map[string]any)
		if !ok || len(was) != len(value) {
			return false
		}
		for name, v := range value {
			before, found := was[name]
			member, _ := s.member(name)
			if !found || !member.Unchanged(v, before) {
				return false
			}
		}
		return true
	case []any:
		was, ok := old.([]any)
		if !ok || len(was) != len(value) {
			return false
		}
		if s.ListType != "map" {
			return reflect.DeepEqual(value, was)
		}
		before := byKeys(s.ListKeys, was)
		for _, v := range value {
			key, ok := keyOf(s.ListKeys, v)
			if !ok || before[key] == nil || !s.Items.Unchanged(v, before[key]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(value, old)
}

// ValidateLists returns an error for each duplicate entry of the sets and list maps in value, with paths below
// base. If old already contains duplicates in any list, it returns no errors. old may be nil.
func (s *Schema) ValidateLists(base *field.Path, value, old any) field.ErrorList {
	if s.below&hasLists == 0 {
		return nil
	}
	if old != nil {
		// Like kube-apiserver, report nothing if the old value already has faults.
		if len(s.ValidateLists(base, old, nil)) > 0 {
			return nil
		}
	}
	var errs field.ErrorList
	s.eachList(base, value, func(list *Schema, path *field.Path, entries []any) {
		if len(errs) >= maxFaults {
			return
		}
		switch list.ListType {
		case "set":
			for _, i := range duplicates(len(entries), func(i int) (string, bool) { return encodedKey(entries[i]) }) {
				errs = append(errs, field.Duplicate(path.Index(i), entries[i]))
			}
		case "map":
			errs = append(errs, list.listMapFaults(path, entries)...)
		}
	})
	return errs
}

func (s *Schema) listMapFaults(path *field.Path, entries []any) field.ErrorList {
	for i, entry := range entries {
		if _, ok := entry.(map[string]any); !ok && entry != nil {
			return field.ErrorList{field.Invalid(path.Index(i), entry, "must be an object for an array of list-type map")}
		}
	}
	var errs field.ErrorList
	key := func(i int) (string, bool) {
		if entries[i] == nil {
			return keyOf(s.ListKeys, map[string]any{})
		}
		return keyOf(s.ListKeys, entries[i])
	}
	for _, i := range duplicates(len(entries), key) {
		shown := map[string]any{}
		members, _ := entries[i].(map[string]any)
		for _, name := range s.ListKeys {
			if value, found := members[name]; found {
				shown[name] = value
			}
		}
		errs = append(errs, field.Duplicate(path.Index(i), shown))
	}
	return errs
}

func encodedKey(value any) (string, bool) {
	if text, ok := value.(string); ok {
		return `"` + text, true // unique, because no JSON text has only one quote
	}
	encoded, err := json.Marshal(value)
	return string(encoded), err == nil
}

// duplicates returns the indexes at which a key occurs for the second time.
func duplicates(n int, key func(int) (string, bool)) []int {
	if n < 2 {
		return nil
	}
	var found []int
	seen := make(map[string]int, n)
	for i := range n {
		k, ok := key(i)
		if !ok {
			continue
		}
		if seen[k]++; seen[k] == 2 {
			if found = append(found, i); len(found) == maxFaults {
				break
			}
		}
	}
	return found
}

// eachList visits the sets and list maps in a value.
func (s *Schema) eachList(path *field.Path, value any, visit func(*Schema, *field.Path, []any)) {
	if s == nil || s.below&hasLists == 0 {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range sortedKeys(value) {
			if member, declared := s.Properties[name]; declared {
				member.eachList(path.Child(name), value[name], visit)
			} else {
				s.Additional.eachList(path.Key(name), value[name], visit)
			}
		}
	case []any:
		if s.ListType == "set" || s.ListType == "map" {
			visit(s, path, value)
		}
		for i := range value {
			s.Items.eachList(path.Index(i), value[i], visit)
		}
	}
}
