package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCurrent fails if the embedded files do not match the types, for example after a version
// update without go generate.
func TestCurrent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	if err := run(filepath.Join("..", "..", "endpoints", "openapi", "data"), true); err != nil {
		t.Error(err)
	}
}

// TestVersions checks that the generator uses the module versions of the product.
func TestVersions(t *testing.T) {
	t.Parallel()
	ours, product := versions(t, "go.mod"), versions(t, filepath.Join("..", "..", "..", "go.mod"))
	for module, version := range ours {
		if want, ok := product[module]; ok && strings.Contains(module, "k8s.io/") && version != want {
			t.Errorf("%s is %s here and %s in the product", module, version, want)
		}
	}
	if ours["k8s.io/api"] == "" || product["k8s.io/api"] == "" {
		t.Error("k8s.io/api is not required")
	}
}

// versions returns the required modules of a go.mod file with their versions.
func versions(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	required := map[string]string{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if words := strings.Fields(scanner.Text()); len(words) >= 2 && strings.HasPrefix(words[1], "v") {
			required[words[0]] = words[1]
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return required
}
