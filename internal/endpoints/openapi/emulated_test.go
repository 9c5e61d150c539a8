package openapi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/feature/emulation"
)

// TestEmulatedFields compares the types in the documents of emulated versions with the schema in client-go
// of the same version. The golden file contains the differences, which are fields that this server cannot
// emulate, because its types do not have them.
func TestEmulatedFields(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	var lines []string
	for minor := emulation.Oldest; minor < emulation.Newest; minor++ {
		var recorded map[string][]string
		readJSON(t, fmt.Sprintf("fields-1.%d.json.gz", minor), &recorded)
		for _, line := range fieldDifferences(recorded, emulatedModels(t, minor)) {
			lines = append(lines, fmt.Sprintf("1.%d %s", minor, line))
		}
	}
	compareGolden(t, "emulated-differences.txt", lines)
}

// TestEmulatedAsRecorded compares the v2 document of the emulated version 1.36 with the recorded document.
// The golden file contains the differences, which are attributes of fields and removed fields.
func TestEmulatedAsRecorded(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	var recorded map[string]any
	readJSON(t, "recorded-v2.json.gz", &recorded)
	want, have := recorded["definitions"].(map[string]any), emulatedModels(t, 36)
	compareChanges(t, "emulated-v2", want, have)
}

// emulatedModels returns the definitions of the v2 document of an emulated version.
func emulatedModels(t *testing.T, minor int) map[string]any {
	t.Helper()
	release := emulation.New(minor, feature.DefaultsOf(minor))
	parts := testParts(t, true)
	for i := range parts {
		p := &parts[i]
		p.Resources = slices.DeleteFunc(p.Resources, func(r Resource) bool { return !release.HasKind(p.GroupVersion.WithKind(r.Kind)) })
	}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return len(p.Resources) == 0 })
	var document struct{ Definitions map[string]any }
	documents := New(Config{Version: fmt.Sprintf("1.%d", minor), Release: release, Parts: parts})
	if err := json.Unmarshal(plain(t, documents.V2()), &document); err != nil {
		t.Fatal(err)
	}
	return document.Definitions
}

// fieldDifferences returns the differences between the models that are on both sides, and the models that
// are only in have.
func fieldDifferences(want map[string][]string, have map[string]any) []string {
	var lines []string
	for name, model := range have {
		fields, known := want[name]
		properties, _ := model.(map[string]any)["properties"].(map[string]any)
		switch {
		case !inClientSchema(name):
			continue
		case !known && len(properties) > 0:
			lines = append(lines, name+": unknown")
			continue
		}
		for _, field := range fields {
			if properties[field] == nil {
				lines = append(lines, name+"."+field+": missing")
			}
		}
		for field := range properties {
			if !slices.Contains(fields, field) {
				lines = append(lines, name+"."+field+": unknown")
			}
		}
	}
	return lines
}

// inClientSchema reports whether the schema in client-go contains a type. The schema does not contain
// lists, reviews, scales or bindings.
func inClientSchema(name string) bool {
	return strings.HasPrefix(name, "io.k8s.api.") && !strings.HasSuffix(name, "List") &&
		!strings.HasPrefix(name, "io.k8s.api.authentication.") && !strings.HasPrefix(name, "io.k8s.api.authorization.") &&
		!strings.HasPrefix(name, "io.k8s.api.autoscaling.v1.Scale") && name != "io.k8s.api.core.v1.Binding"
}

// compareGolden compares lines with a golden file, regardless of their order.
func compareGolden(t *testing.T, name string, lines []string) {
	t.Helper()
	slices.Sort(lines)
	text := strings.Join(lines, "\n") + "\n"
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), text); diff != "" {
		t.Errorf("differences (-golden +now):\n%s", diff)
	}
}
