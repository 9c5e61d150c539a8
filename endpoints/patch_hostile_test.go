package endpoints

import "testing"

// A patch that replaces the whole document by nothing is refused before the
// library, which trips over it, sees it.
func TestJSONPatchOfTheWholeByNothing(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`[{"op":"replace","path":""}]`, `[{"op":"add","path":""}]`, `[{"op":"replace","path":"","value":null}]`} {
		if _, err := parseJSONPatch([]byte(body), ""); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
}
