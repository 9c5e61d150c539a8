package crds

import (
	"os"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// behaviour is one thing that users of custom resources rely on.
type behaviour struct {
	name string
	run  func(t *testing.T, w *world)
}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	themes := promises()
	themes["samples"], themes["refused"] = samples(t), refusing
	testThemes(t, themes)
}

// TestCustomResourcesWithoutCache is the same on a server that reads from its
// store, for what its users may rely on.
func TestCustomResourcesWithoutCache(t *testing.T) {
	t.Parallel()
	testThemes(t, promises(), "--watch-cache=false")
}

func testThemes(t *testing.T, themes map[string][]behaviour, flags ...string) {
	srv := testserver.New(t, testserver.Options{Flags: flags})
	for theme, behaviours := range themes {
		t.Run(theme, func(t *testing.T) {
			t.Parallel()
			for _, b := range behaviours {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, newWorld(t, srv))
				})
			}
		})
	}
}

// promises are the behaviours that docs/reference/conformance.md lists, by theme.
func promises() map[string][]behaviour {
	return map[string][]behaviour{
		"answers":      answers,
		"lifecycle":    living,
		"objects":      handlingObjects,
		"pruning":      pruning,
		"defaulting":   defaulting,
		"validation":   validating,
		"ratcheting":   ratcheting,
		"subresources": subresources,
		"columns":      columns,
		"versions":     versions,
		"fields":       selectingFields,
		"apply":        applying,
	}
}

// TestDocument checks that docs/reference/conformance.md names each behavior, and that each behavior
// that it names exists.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for theme, behaviours := range promises() {
		for _, b := range behaviours {
			name := strings.ReplaceAll(b.name, " ", "_")
			if names[theme+"/"+name] = true; !strings.Contains(string(text), name) {
				t.Errorf("%s/%s is not named", theme, name)
			}
		}
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if _, tests, found := strings.Cut(strings.ReplaceAll(line, "`", ""), "| crds "); found {
			first, _, _ := strings.Cut(strings.TrimSuffix(tests, " |"), ";")
			if theme, _, _ := strings.Cut(first, "/"); promises()[theme] != nil && !names[first] && !startsWithAny(first, names) {
				t.Errorf("there is no %s", first)
			}
		}
	}
}

// startsWithAny reports whether text is one of the names and then more of them.
func startsWithAny(text string, names map[string]bool) bool {
	for name := range names {
		if strings.HasPrefix(text, name+", ") {
			return true
		}
	}
	return false
}
