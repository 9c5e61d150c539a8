package jsonplan

import (
	"reflect"
	"strconv"
	"unsafe"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// The types below are parts of CustomResourceDefinitions. Their own JSON methods encode and decode a
// complete JSON text at each level, so encoding/json would check a schema with ten levels ten times.

type (
	rawJSON            = apiextensionsv1.JSON
	schemaProps        = apiextensionsv1.JSONSchemaProps
	schemaOrBool       = apiextensionsv1.JSONSchemaPropsOrBool
	schemaOrList       = apiextensionsv1.JSONSchemaPropsOrArray
	schemaOrProperties = apiextensionsv1.JSONSchemaPropsOrStringArray
)

// definitionPlan returns the plan of one of these types, or nil for other types.
func definitionPlan(t reflect.Type) encodeFunc {
	switch t {
	case reflect.TypeFor[rawJSON]():
		return rawJSONPlan
	case reflect.TypeFor[schemaOrBool]():
		schema := planOf(reflect.TypeFor[schemaProps]())
		return func(w *writer, b []byte, p unsafe.Pointer) []byte {
			v := (*schemaOrBool)(p)
			if v.Schema == nil {
				return strconv.AppendBool(b, v.Allows)
			}
			return schema(w, b, unsafe.Pointer(v.Schema))
		}
	case reflect.TypeFor[schemaOrList]():
		schema, list := planOf(reflect.TypeFor[*schemaProps]()), planOf(reflect.TypeFor[[]schemaProps]())
		return func(w *writer, b []byte, p unsafe.Pointer) []byte {
			v := (*schemaOrList)(p)
			if len(v.JSONSchemas) > 0 {
				return list(w, b, unsafe.Pointer(&v.JSONSchemas))
			}
			return schema(w, b, unsafe.Pointer(&v.Schema))
		}
	case reflect.TypeFor[schemaOrProperties]():
		schema, list := planOf(reflect.TypeFor[*schemaProps]()), planOf(reflect.TypeFor[[]string]())
		return func(w *writer, b []byte, p unsafe.Pointer) []byte {
			v := (*schemaOrProperties)(p)
			if len(v.Property) > 0 {
				return list(w, b, unsafe.Pointer(&v.Property))
			}
			return schema(w, b, unsafe.Pointer(&v.Schema))
		}
	}
	return nil
}

func rawJSONPlan(w *writer, b []byte, p unsafe.Pointer) []byte {
	v := (*rawJSON)(p)
	switch {
	case len(v.Raw) == 0:
		return append(b, "null"...)
	case isScalar(v.Raw):
		return append(b, v.Raw...)
	}
	return w.slow(b, v)
}

// isScalar reports whether a JSON text is a nonnegative integer or a string that needs no escapes, as most
// defaults and enumeration values are.
func isScalar(raw []byte) bool {
	if raw[0] != '"' {
		r := reader{data: string(raw)}
		_, end := r.integer(0)
		return end == len(raw) && raw[0] != '-'
	}
	end := 1 + unescapedPrefix(raw[1:])
	if end != len(raw)-1 || raw[end] != '"' {
		return false
	}
	for _, c := range raw {
		if c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// definitionReadPlan is the counterpart of definitionPlan for decoding. It does not support the invalid
// values that the types accept; such values are decoded with the methods of the types.
func definitionReadPlan(t reflect.Type) decodeFunc {
	switch t {
	case reflect.TypeFor[rawJSON]():
		return readRawJSON
	case reflect.TypeFor[schemaOrBool]():
		schema := readPlanOf(reflect.TypeFor[*schemaProps]())
		return func(r *reader, i int, p unsafe.Pointer) int {
			v := (*schemaOrBool)(p)
			switch r.at(i) {
			case '{':
				v.Allows = true
				return schema(r, i, unsafe.Pointer(&v.Schema))
			case 't', 'f':
				return readBool(r, i, unsafe.Pointer(&v.Allows))
			}
			return invalid
		}
	case reflect.TypeFor[schemaOrList]():
		return eitherPlan(unsafe.Offsetof(schemaOrList{}.Schema), unsafe.Offsetof(schemaOrList{}.JSONSchemas), reflect.TypeFor[[]schemaProps]())
	case reflect.TypeFor[schemaOrProperties]():
		return eitherPlan(unsafe.Offsetof(schemaOrProperties{}.Schema), unsafe.Offsetof(schemaOrProperties{}.Property), reflect.TypeFor[[]string]())
	}
	return nil
}

// eitherPlan returns a plan that decodes an object into one field and a list into another.
func eitherPlan(schemaAt, listAt uintptr, listType reflect.Type) decodeFunc {
	schema, list := readPlanOf(reflect.TypeFor[*schemaProps]()), readPlanOf(listType)
	return func(r *reader, i int, p unsafe.Pointer) int {
		switch r.at(i) {
		case '{':
			return schema(r, i, unsafe.Add(p, schemaAt))
		case '[':
			return list(r, i, unsafe.Add(p, listAt))
		}
		return invalid
	}
}

func readRawJSON(r *reader, i int, p unsafe.Pointer) int {
	end := r.skip(i)
	if end == invalid || r.at(i) == 'n' {
		return end
	}
	(*rawJSON)(p).Raw = []byte(r.data[i:end])
	return end
}
