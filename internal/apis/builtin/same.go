package builtin

import "reflect"

// CopySame copies all fields with the same name and shape from one struct to another, recursively.
// Other fields are not changed. Memory is shared between fields of the same type. It takes
// microseconds and is intended for rarely used versions.
func CopySame[To, From any](to *To, from *From) {
	copySame(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func copySame(to, from reflect.Value) {
	switch {
	case to.Type() == from.Type():
		to.Set(from)
	case to.Kind() != from.Kind():
	case to.Kind() == reflect.Struct:
		for i := range to.NumField() {
			if field := from.FieldByName(to.Type().Field(i).Name); field.IsValid() {
				copySame(to.Field(i), field)
			}
		}
	case to.Kind() == reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
			copySame(to.Elem(), from.Elem())
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
		copySame(to.Index(i), from.Index(i))
	}
}

func copyMap(to, from reflect.Value) {
	if from.IsNil() {
		return
	}
	to.Set(reflect.MakeMapWithSize(to.Type(), from.Len()))
	for entries := from.MapRange(); entries.Next(); {
		key, value := reflect.New(to.Type().Key()).Elem(), reflect.New(to.Type().Elem()).Elem()
		copySame(key, entries.Key())
		copySame(value, entries.Value())
		to.SetMapIndex(key, value)
	}
}
