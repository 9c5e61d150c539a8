package manifests_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"mainstay.dev/mainstay/internal/apitest/manifests"
)

// TestNumbers checks that large numbers in manifests are not rounded.
func TestNumbers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	const content = `
apiVersion: v1
kind: List
items:
- {apiVersion: example.com/v1, kind: X, metadata: {name: a}, large: 9007199254740993, small: 5, fraction: 0.25}
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := manifests.Read(file)
	if err != nil || len(objects) != 1 {
		t.Fatalf("objects: %v, %v", objects, err)
	}
	text, err := json.Marshal(objects[0].Object)
	const want = `{"apiVersion":"example.com/v1","fraction":0.25,"kind":"X","large":9007199254740993,"metadata":{"name":"a"},"small":5}`
	if err != nil || string(text) != want {
		t.Errorf("the object is %s, %v, want %s", text, err, want)
	}
}
