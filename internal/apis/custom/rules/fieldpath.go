package rules

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var errNoField = errors.New("does not refer to a valid field")

// FieldAt returns the path for messages and the schema of the field at a path such as .spec.size. If brackets
// is set, paths such as .data['a.b'] are also accepted. It returns an error if the path is malformed or the
// schema has no such field.
func FieldAt(props *apiextensions.JSONSchemaProps, text string, brackets bool) (*field.Path, *apiextensions.JSONSchemaProps, error) {
	var path *field.Path
	for text != "" {
		name, rest, err := nextName(text, brackets)
		if err != nil {
			return nil, nil, err
		}
		text = rest
		switch {
		case len(props.Properties) > 0:
			member, found := props.Properties[name]
			if !found {
				return nil, nil, errNoField
			}
			path, props = path.Child(name), &member
		case props.AdditionalProperties != nil:
			path, props = path.Key(name), props.AdditionalProperties.Schema
			if props == nil {
				props = &apiextensions.JSONSchemaProps{} // anything
			}
		default:
			return nil, nil, errNoField
		}
	}
	return path, props, nil
}

// nextName cuts the first name off a path.
func nextName(text string, brackets bool) (name, rest string, err error) {
	switch text[0] {
	case '.':
		text = text[1:]
		if text == "" {
			return "", "", errors.New("unexpected end of JSON path")
		}
		end := strings.IndexAny(text[1:], ".[]") + 1
		if strings.IndexByte(".[]", text[0]) >= 0 || end == 0 && len(text) == 1 {
			return text[:1], text[1:], nil
		}
		if end == 0 {
			return text, "", nil
		}
		return text[:end], text[end:], nil
	case '[':
		if !brackets {
			return "", "", errors.New("array notation is not allowed")
		}
		return quotedName(text[1:])
	}
	first := text
	if end := strings.IndexAny(text, ".[]"); end > 0 {
		first = text[:end]
	}
	return "", "", fmt.Errorf("expected [ or . but got: %s", first)
}

// quotedName cuts a quoted name, and the bracket after it, off a path.
func quotedName(text string) (name, rest string, err error) {
	if text == "" {
		return "", "", errors.New("unexpected end of JSON path")
	}
	if text[0] != '\'' {
		return "", "", fmt.Errorf("expected single quoted string but got %s", text)
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\'':
			if i+1 == len(text) {
				return "", "", errors.New("unexpected end of JSON path")
			}
			if text[i+1] != ']' {
				return "", "", fmt.Errorf("expected ] but got %s", text[i+1:])
			}
			return b.String(), text[i+2:], nil
		case '\\':
			i++
			if i == len(text) {
				break
			}
			at := strings.IndexByte(`abfnrtv'\`, text[i])
			if at < 0 {
				return "", "", fmt.Errorf("invalid string literal: invalid escape char %s", text[i-1:i+1])
			}
			b.WriteByte("\a\b\f\n\r\t\v'\\"[at])
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", fmt.Errorf("expected single quoted string but got %s", text)
}
