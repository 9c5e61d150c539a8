package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// documented is implemented by types of k8s.io/api and apimachinery. SwaggerDoc returns the descriptions of the
// fields.
type documented interface{ SwaggerDoc() map[string]string }

// optionTypes returns the types whose fields are query parameters.
func optionTypes() []documented {
	return []documented{
		metav1.CreateOptions{}, metav1.DeleteOptions{}, metav1.ListOptions{}, metav1.PatchOptions{}, metav1.UpdateOptions{},
		corev1.NodeProxyOptions{}, corev1.PodAttachOptions{}, corev1.PodExecOptions{}, corev1.PodLogOptions{},
		corev1.PodPortForwardOptions{}, corev1.PodProxyOptions{}, corev1.ServiceProxyOptions{},
	}
}

// option is a query parameter.
type option struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
}

// encodeOptions returns the content of options.json, which contains the query parameters for each options type.
func encodeOptions() ([]byte, error) {
	all := map[string][]option{}
	for _, t := range optionTypes() {
		docs := t.SwaggerDoc()
		kind := reflect.TypeOf(t)
		var options []option
		for i := range kind.NumField() {
			field := kind.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if typ := parameterType(field.Type); typ != "" && name != "" {
				options = append(options, option{Name: name, Type: typ, Description: docs[name]})
			}
		}
		if len(options) == 0 {
			return nil, fmt.Errorf("%v has no parameters", kind)
		}
		all[kind.Name()] = options
	}
	data, err := json.MarshalIndent(all, "", "\t")
	return append(data, '\n'), err
}

// parameterType returns the OpenAPI type for a Go type. For a slice, it returns the type of the elements,
// because the query parameter can be repeated. It returns "" for types that cannot be query parameters.
func parameterType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return parameterType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Int32, reflect.Int64:
		return "integer"
	default:
		return ""
	}
}
