// Package names validates the syntax of Kubernetes names without regular expressions. For nonempty strings, the
// results are the same as those of apimachinery's validation, which is about a hundred times slower. All
// functions return false for an empty string. Callers use apimachinery only to create the error message for an
// invalid name.
package names

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// IsLabel reports whether a text is a DNS label (RFC 1123).
func IsLabel(s string) bool {
	if s == "" || len(s) > validation.DNS1123LabelMaxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && !isLower(c) && !isDigit(c) {
			return false
		}
	}
	return true
}

// IsSubdomain reports whether a text is a DNS subdomain (RFC 1123), which consists of labels of
// lower-case letters, digits and dashes, separated by dots.
func IsSubdomain(s string) bool {
	if s == "" || len(s) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	between := true // at the beginning of a label
	for i := range len(s) {
		switch c := s[i]; {
		case isLower(c), isDigit(c):
			between = false
		case c == '.':
			if between || s[i-1] == '-' {
				return false
			}
			between = true
		case c != '-' || between:
			return false
		}
	}
	return !between && s[len(s)-1] != '-'
}

// IsLabelValue reports whether a text is a nonempty label value, which has the same syntax as the
// name part of a label key.
func IsLabelValue(s string) bool {
	if s == "" || len(s) > validation.LabelValueMaxLength || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// IsQualified reports whether a text is a qualified name, such as a label or annotation key. It
// consists of a name, optionally preceded by a DNS subdomain and a slash.
func IsQualified(s string) bool {
	if slash := strings.IndexByte(s, '/'); slash >= 0 {
		return IsSubdomain(s[:slash]) && IsLabelValue(s[slash+1:])
	}
	return IsLabelValue(s)
}

func isLower(c byte) bool        { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool        { return '0' <= c && c <= '9' }
func isAlphanumeric(c byte) bool { return isLower(c) || isDigit(c) || 'A' <= c && c <= 'Z' }
