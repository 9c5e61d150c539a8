package custom

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestColumnsThatMultiply checks that a cell is empty if its search would be too expensive, and that all other
// cells are computed.
func TestColumnsThatMultiply(t *testing.T) {
	t.Parallel()
	deep := func(depth int) map[string]any {
		value := map[string]any{"a": "end"}
		for range depth {
			value = map[string]any{"a": value}
		}
		return value
	}
	wide := []any{}
	for range 1000 {
		wide = append(wide, map[string]any{"kind": "x", "parts": []any{map[string]any{"name": "n"}}})
	}
	for _, test := range []struct {
		path string
		doc  any
		want any // nil if the object is not searched
	}{
		{"..name", wide, "n"},
		{"..parts..name", wide, "n"},
		{"[?(@..name)].kind", wide, "x"},
		{"[0]['kind','parts']", wide, "x"},
		{"..a..a..a", deep(30), "{"},
		{"..a..a..a..a..a..a", deep(60), nil},
		{"..a", deep(9000), nil},
		{strings.Repeat("..a", 9), deep(1), nil},
		{strings.Repeat("['a','a']", 40), deep(60), nil},
	} {
		table, err := makeTable([]apiextensionsv1.CustomResourceColumnDefinition{{Name: "c", Type: "string", JSONPath: ".o" + test.path}})
		if err != nil {
			t.Fatalf("make a table with the path %s: %v", test.path, err)
		}
		obj := &unstructured.Unstructured{Object: map[string]any{"o": test.doc}}
		got := table.cells(obj, time.Now())[1]
		if text, _ := got.(string); got != test.want && (test.want == nil || !strings.HasPrefix(text, test.want.(string))) {
			t.Errorf("%.40s: got %.60v, want %v", test.path, got, test.want)
		}
	}
}
