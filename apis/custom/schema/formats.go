package schema

import (
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// isStringFormat tells whether a format of strings is checked; others are
// notes to the reader. Dashes do not count.
func isStringFormat(format string) bool {
	switch strings.ReplaceAll(format, "-", "") {
	case "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac",
		"uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn",
		"hexcolor", "rgbcolor", "byte", "password", "date", "duration", "datetime",
		"k8sshortname", "k8slongname":
		return true
	}
	return false
}

// knownFormat returns the format if it means something for values of a type.
func knownFormat(jsonType, format string) string {
	known := false
	switch jsonType {
	case "", "string":
		known = isStringFormat(format)
	case "integer":
		known = format == "int32" || format == "int64"
	case "number":
		known = format == "float" || format == "double"
	}
	if !known {
		return ""
	}
	return format
}

// UnknownFormats returns the formats in a schema that are not checked, in no
// order and as often as they occur.
func UnknownFormats(props *apiextensions.JSONSchemaProps) []string {
	var found []string
	Walk(props, func(s *apiextensions.JSONSchemaProps) {
		if s.Format != "" && knownFormat(s.Type, s.Format) == "" {
			found = append(found, s.Format)
		}
	})
	return found
}

// hasFormat tells whether a string has a format.
func hasFormat(format, value string) bool {
	return !strfmt.Default.ContainsName(format) || strfmt.Default.Validates(format, value)
}

// Walk calls visit for a schema and all schemas in it.
func Walk(props *apiextensions.JSONSchemaProps, visit func(*apiextensions.JSONSchemaProps)) {
	if props == nil {
		return
	}
	visit(props)
	lists := [][]apiextensions.JSONSchemaProps{props.AllOf, props.AnyOf, props.OneOf}
	if props.Items != nil {
		Walk(props.Items.Schema, visit)
		lists = append(lists, props.Items.JSONSchemas)
	}
	for _, list := range lists {
		for i := range list {
			Walk(&list[i], visit)
		}
	}
	Walk(props.Not, visit)
	for _, members := range []map[string]apiextensions.JSONSchemaProps{props.Properties, props.PatternProperties, props.Definitions} {
		for _, member := range members {
			Walk(&member, visit)
		}
	}
	for _, other := range []*apiextensions.JSONSchemaPropsOrBool{props.AdditionalProperties, props.AdditionalItems} {
		if other != nil {
			Walk(other.Schema, visit)
		}
	}
	for _, dependency := range props.Dependencies {
		Walk(dependency.Schema, visit)
	}
}
