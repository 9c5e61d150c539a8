package schema

import (
	"strings"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// isStringFormat reports whether a format is validated for strings. Other formats are only documentation.
// Dashes in the format are ignored.
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

// knownFormat returns the format if it is validated for values of a type, otherwise "".
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

// IsKnownFormat reports whether a format is validated for values of a type.
func IsKnownFormat(jsonType, format string) bool { return knownFormat(jsonType, format) != "" }

// hasFormat reports whether a string conforms to a format. All strings conform to an unknown format.
func hasFormat(format, value string) bool {
	return !strfmt.Default.ContainsName(format) || strfmt.Default.Validates(format, value)
}
