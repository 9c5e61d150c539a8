package codec_test

import (
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
