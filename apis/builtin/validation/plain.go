package validation

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The following report whether a text is of a form, for sure: nearly all are, and
// the regular expressions that find the words for the others take a hundred times
// as long.

// plainLabel: a DNS label.
func plainLabel(s string) bool {
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

// plainSubdomain: labels of small letters, digits and dashes, with dots between
// them.
func plainSubdomain(s string) bool {
	if s == "" || len(s) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	between := true // two characters that belong to a label
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

// plainName: the name part of a key, and the value of a label that is not empty.
func plainName(s string) bool {
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

// IsQualified reports whether a text is a name that may have a prefix, as the keys
// of labels.
func IsQualified(s string) bool { return plainQualified(s) }

// IsSubdomain reports whether a text is a DNS subdomain (RFC 1123).
func IsSubdomain(s string) bool { return plainSubdomain(s) }

// plainQualified: a name that may have a prefix.
func plainQualified(s string) bool {
	if slash := strings.IndexByte(s, '/'); slash >= 0 {
		return plainSubdomain(s[:slash]) && plainName(s[slash+1:])
	}
	return plainName(s)
}

func isLower(c byte) bool        { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool        { return '0' <= c && c <= '9' }
func isAlphanumeric(c byte) bool { return isLower(c) || isDigit(c) || 'A' <= c && c <= 'Z' }
