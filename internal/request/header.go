package request

import "strings"

// NormalizeHeader returns a header name in lower case, with a hyphen for every character that is not
// a letter or a digit. CGI-style servers cannot distinguish two names with the same result, so names
// that must not be forwarded are compared in this form.
func NormalizeHeader(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r + ('a' - 'A')
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, name)
}
