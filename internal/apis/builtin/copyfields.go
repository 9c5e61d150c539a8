package builtin

import "reflect"

// CopyMatchingFields copies all fields that have the same name and shape in both structs, recursively. It does
// not change other fields of to. Fields of identical types share memory afterwards. CopyMatchingFields uses
// reflection and takes microseconds, which is acceptable for rarely used versions.
func CopyMatchingFields[To, From any](to *To, from *From) {
	copyValue(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func copyValue(to, from reflect.Value) {
	switch {
	case to.Type() == from.Type():
		to.Set(from)
	case to.Kind() != from.Kind():
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			if field := from.FieldByName(to.Type().Field(i).Name); field.IsValid() {
				copyValue(to.Field(i), field)
			}
		}
	case to.Kind() == reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			copyValue(to.Elem(), from.Elem())
		}
	case to.Kind() == reflect.Slice:
		copyList(to, from)
	case to.Kind() == reflect.Map:
		copyMap(to, from)
	default:
		to.Set(from.Convert(to.Type()))
	}
}

func copyList(to, from reflect.Value) {
	if from.IsNil() {
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
	for i := range from.Len() {
		copyValue(to.Index(i), from.Index(i))
	}
}

func copyMap(to, from reflect.Value) {
	if from.IsNil() {
		return
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
	for entries := from.MapRange(); entries.Next(); {
		key, value := reflect.New(to.Type().Key()).Elem(), reflect.New(to.Type().Elem()).Elem()
		copyValue(key, entries.Key())
		copyValue(value, entries.Value())
		to.SetMapIndex(key, value)
	}
}
