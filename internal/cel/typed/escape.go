package typed

import "strings"

// isReserved reports whether an identifier is reserved in CEL.
func isReserved(word string) bool {
	switch word {
	case "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let", "loop", "package", "namespace", "return", "var", "void", "while":
		return true
	}
	return false
}

// Escape returns the CEL identifier for the name of an object member. It returns false if the name is empty,
// starts with a digit, or contains characters other than ASCII letters, digits and _ . - /. The CEL rules for
// structural schemas (KEP-2876) define the escape sequences.
func Escape(name string) (string, bool) {
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		return "", false
	}
	if isReserved(name) {
		return "__" + name + "__", true
	}
	plain := true
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_':
			plain = plain && (i == 0 || name[i-1] != '_')
		case c == '.', c == '-', c == '/':
			plain = false
		default:
			return "", false
		}
	}
	if plain {
		return name, true
	}
	return strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__").Replace(name), true
}
