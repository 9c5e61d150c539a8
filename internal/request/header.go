package request

import "strings"

// NormalizeHeader returns the form of a header name that CGI-style servers reduce it to:
// lower case, with a hyphen for every character that is not a letter or a digit. Two
// names with the same form cannot be distinguished by such a server, so a name that must
// not be forwarded is compared in this form.
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
