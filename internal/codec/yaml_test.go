package codec_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/codec"
)

// TestAliases checks that aliases can be used, but cannot multiply the size of a document.
func TestAliases(t *testing.T) {
	t.Parallel()
	v := configMapVersion()
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: &a {x: v}\n  labels: *a\n"
	obj, err := v.Decode([]byte(head), codec.YAML, true)
	if err != nil || obj.GetLabels()["x"] != "v" {
		t.Fatalf("decode an alias: object %v, error %v; want the label x=v", obj, err)
	}
	bomb := head + "data:\n  a: &long " + strings.Repeat("x", 1<<20) + "\n  b: [" + strings.Repeat("*long,", 200_000) + "]\n"
	if _, err := v.Decode([]byte(bomb), codec.YAML, false); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("decoded: %.200v", err)
	}
	var document map[string]any
	if _, err := codec.UnmarshalDocument([]byte(bomb), &document); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("read as a document: %.200v", err)
	}
	if _, err := codec.DecodeDeleteOptions([]byte(strings.Replace(bomb, "ConfigMap", "DeleteOptions", 1)), codec.YAML); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("read as options: %.200v", err)
	}
}

// TestYAMLMemory checks that documents for which the parser would need much more memory than their size are
// rejected. It is not parallel, because it counts the allocations of the process.
func TestYAMLMemory(t *testing.T) {
	var names strings.Builder
	for i := 0; names.Len() < 3<<20; i++ {
		fmt.Fprintf(&names, "%x,", i)
	}
	for name, body := range map[string]string{
		"empty maps":        "a: [" + strings.Repeat("{},", 1<<20) + "]",
		"pairs":             "a: [" + strings.Repeat("a: ,", 3<<18) + "]",
		"names":             "a: {" + names.String() + "}",
		"lines with null":   "a:\n" + strings.Repeat("-\n", 3<<19),
		"other line breaks": "a:\n" + strings.Repeat("-\u0085", 1<<20),
		"lines with maps":   "a:\n" + strings.Repeat("- a:\n", 3<<20/5),
		"aliases":           "b: &a {}\na: [" + strings.Repeat("*a,", 1<<20) + "]",
		"UTF-16":            "\xff\xfea\x00:\x00\n\x00" + strings.Repeat("-\x00\n\x00", 3<<18),
	} {
		var err error
		got := allocated(func() { _, err = codec.UnmarshalDocument([]byte(body), &map[string]any{}) })
		if !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%s: error %.200v, want 413", name, err)
		}
		if got > maxDecodeAllocation {
			t.Errorf("%s: %d MiB were allocated for a body of %d bytes", name, got>>20, len(body))
		}
		if _, err := configMapVersion().Decode([]byte(body), codec.YAML, false); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%s: error %.200v of a typed object, want 413", name, err)
		}
	}
}

// TestLargeYAML checks that large but realistic YAML documents are accepted.
func TestLargeYAML(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"a JSON text": "a: |\n" + strings.Repeat(`  {"name":"a","value":"b","list":[1,2,3]},`+"\n", 3<<19/45),
		"fields":      "a:\n" + strings.Repeat("- name: value\n  amount: 1\n", 60_000),
		"schemas":     "a:\n" + strings.Repeat("- description: A text.\n  type: string\n", 80_000),
	} {
		if _, err := codec.UnmarshalDocument([]byte(body), &map[string]any{}); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}
