package rules

import (
	"strings"
	"testing"
)

const pathSchema = `
type: object
properties:
  a: {type: object, properties: {b.c: {type: string}, d: {type: integer}}}
  m: {type: object, additionalProperties: {type: object, properties: {x: {type: string}}}}
  any: {type: object, additionalProperties: true}
  l: {type: array, items: {type: string}}`

func TestFieldAt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		".a": "a", ".a.d": "a.d", ".a['b.c']": "a.b.c", "['a']['d']": "a.d", ".m.k.x": "m[k].x", ".m['k y'].x": "m[k y].x", `.m['it\'s']`: "m[it's]", `.m['a\\b\n']`: "m[a\\b\n]", ".any.z.z": "",
		".any.z": "any[z]", "": "<nil>",
		"a": "expected [ or . but got: a", ".": "unexpected end of JSON path", ".a.": "unexpected end of JSON path", ".z": "does not refer to a valid field", ".a.d.e": "does not refer to a valid field",
		".l[0]": "expected single quoted string but got 0]", ".a[": "unexpected end of JSON path", ".a['d": "expected single quoted string but got 'd", ".a['d'": "unexpected end of JSON path",
		".a['d'x": "expected ] but got x", `.m['\q']`: `invalid string literal: invalid escape char \q`, `.m['\`: `expected single quoted string but got '\`, ".a]": "expected [ or . but got: ]",
	} {
		path, _, err := FieldAt(schemaOf(t, pathSchema), text, true)
		got := path.String()
		if err != nil {
			got = err.Error()
		}
		if want == "" {
			want = "does not refer to a valid field"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if _, _, err := FieldAt(schemaOf(t, pathSchema), ".a['d']", false); err == nil || err.Error() != "array notation is not allowed" {
		t.Errorf("brackets that are not allowed: got error %v", err)
	}
}

// FuzzFieldAt checks that FieldAt returns a path and a schema for each accepted text, and rejects brackets if
// they are not allowed.
func FuzzFieldAt(f *testing.F) {
	for _, text := range []string{".a.d", ".m['k']", `['a']['b.c']`, ".a[", `.m['\`, "..", ".]"} {
		f.Add(text)
	}
	props := schemaOf(f, pathSchema)
	f.Fuzz(func(t *testing.T, text string) {
		path, found, err := FieldAt(props, text, true)
		if err == nil && (found == nil || text != "" && path == nil) {
			t.Errorf("FieldAt(%q): path %v, schema %v, want both or an error", text, path, found)
		}
		if _, _, err := FieldAt(props, text, false); err == nil && strings.Contains(text, "['") && !strings.Contains(text, ".") {
			t.Errorf("%q was accepted", text)
		}
	})
}
