package openapi

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// Values without a field in a message are stored as YAML. The YAML is byte-for-byte identical to the output
// of gnostic's encoder, with three exceptions: multi-line text is double-quoted, very long names stay on
// one line with their value, and << is quoted, because gnostic's decoder would parse it as a merge key.

// yaml writes a value as a YAML document.
func (e *encoder) yaml(i int) int { return e.yamlValue(i, 0, true) }

// yamlValue writes the value at i and ends the line. The lines of a nonempty object or list are indented by
// indent. If hanging is set, the caller has already started the first line.
func (e *encoder) yamlValue(i, indent int, hanging bool) int {
	first := e.in.At(i)
	if first != '{' && first != '[' {
		i = e.yamlScalar(i)
		e.out = append(e.out, '\n')
		return i
	}
	i, more := e.in.Enter(i)
	if !more {
		e.out = append(e.out, first, first+2, '\n') // the closing bracket is two after the opening one
		return i
	}
	for more {
		if !hanging {
			e.indent(indent)
		}
		hanging = false
		if first == '[' {
			e.out = append(e.out, '-', ' ')
			i = e.yamlValue(i, indent+2, true)
		} else {
			i = e.yamlMember(i, indent)
		}
		i, more = e.in.Next(i, first+2)
	}
	return i
}

func (e *encoder) yamlMember(i, indent int) int {
	name, at := e.in.Name(i)
	e.yamlText(name)
	e.out = append(e.out, ':')
	line := len(e.out)
	if c := e.in.At(at); c == '{' || c == '[' {
		if _, more := e.in.Enter(at); more {
			e.in.Leave()
			e.out = append(e.out, '\n')
			// Indent by the next multiple of four. Inside lists, the current indentation is not always a
			// multiple of four.
			return e.yamlValue(at, (indent+4)&^3, false)
		}
	}
	e.out = append(e.out[:line], ' ')
	return e.yamlValue(at, 0, true)
}

func (e *encoder) indent(n int) {
	for range n {
		e.out = append(e.out, ' ')
	}
}

func (e *encoder) yamlScalar(i int) int {
	if e.in.At(i) == '"' {
		text, end := e.in.Text(i)
		e.yamlText(text)
		return end
	}
	end := e.in.Skip(i)
	if end != jsonplan.Invalid {
		e.out = append(e.out, e.in.Raw(i, end)...)
	}
	return end
}

// yamlText writes a string, without quotes if it has no special meaning in YAML.
func (e *encoder) yamlText(text string) {
	plain, single := yamlStyles(text)
	switch {
	case isYAMLScalar(text) || !plain && !single:
		e.yamlQuoted(text)
	case plain:
		e.out = append(e.out, text...)
	default:
		e.out = append(e.out, '\'')
		e.out = append(e.out, strings.ReplaceAll(text, "'", "''")...)
		e.out = append(e.out, '\'')
	}
}

// yamlStyles reports whether a string can be written without quotes (plain) and in single quotes (single).
func yamlStyles(text string) (plain, single bool) {
	for _, c := range text {
		if !isYAMLPrintable(c) {
			return false, false
		}
	}
	if text == "" || text[0] == ' ' || text[len(text)-1] == ' ' {
		return false, true
	}
	if strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...") ||
		strings.IndexByte("#,[]{}&*!|>'\"%@`", text[0]) >= 0 ||
		text[0] == '-' && (len(text) == 1 || text[1] == ' ') ||
		text[0] == '?' && (len(text) == 1 || text[1] == ' ') {
		return false, true
	}
	return !strings.Contains(text, ": ") && text[len(text)-1] != ':' && !strings.Contains(text, " #"), true
}

// isYAMLPrintable reports whether a character can be written without an escape. Line breaks and
// characters outside the basic multilingual plane cannot.
func isYAMLPrintable(c rune) bool {
	switch {
	case c < 0x80:
		return c >= ' ' && c < 0x7f
	case c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe || c == 0xffff:
		return false
	default:
		return c >= 0xa0 && c <= 0xffff
	}
}

// isYAMLScalar reports whether an unquoted string would be parsed as another type.
func isYAMLScalar(text string) bool {
	switch text {
	case "", "~", "<<", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE",
		".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return true
	}
	c := text[0]
	if c == '.' {
		_, err := strconv.ParseFloat(text, 64)
		return err == nil
	}
	if c != '+' && c != '-' && (c < '0' || c > '9') {
		return false
	}
	return isYAMLTime(text) || isYAMLNumber(strings.ReplaceAll(text, "_", ""))
}

func isYAMLNumber(text string) bool {
	if _, err := strconv.ParseInt(text, 0, 64); err == nil {
		return true
	}
	if _, err := strconv.ParseUint(text, 0, 64); err == nil {
		return true
	}
	if strings.Trim(text, "+-.0123456789eE") != "" {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

func isYAMLTime(text string) bool {
	if len(text) < 5 || text[4] != '-' {
		return false
	}
	for _, layout := range [...]string{"2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

// yamlQuoted writes a string in double quotes.
func (e *encoder) yamlQuoted(text string) {
	e.out = append(e.out, '"')
	for i, c := range text {
		short := strings.IndexRune("\x00\a\b\t\n\v\f\r\x1b\"\\", c)
		switch {
		case short >= 0:
			e.out = append(e.out, '\\', `0abtnvfre"\`[short])
		case isYAMLPrintable(c):
			e.out = append(e.out, text[i:i+utf8.RuneLen(c)]...)
		case c <= 0xff:
			e.yamlEscape('x', c, 2)
		case c <= 0xffff:
			e.yamlEscape('u', c, 4)
		default:
			e.yamlEscape('U', c, 8)
		}
	}
	e.out = append(e.out, '"')
}

func (e *encoder) yamlEscape(kind byte, c rune, digits int) {
	e.out = append(e.out, '\\', kind)
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		e.out = append(e.out, "0123456789ABCDEF"[c>>shift&15])
	}
}
