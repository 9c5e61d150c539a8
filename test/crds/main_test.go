package crds

import (
	"os"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// behavior is one tested behavior of custom resources.
type behavior struct {
	name string
	run  func(t *testing.T, env *environment)
}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	topics := guarantees()
	topics["samples"], topics["rejected"] = samples(t), rejecting
	testTopics(t, topics)
}

// TestCustomResourcesWithoutCache tests, on a server without a watch cache, the behaviors that depend on the
// cache: reads, lists, watches, and changes of the definition in between. Pruning, validation, defaulting and
// apply do not depend on the cache.
func TestCustomResourcesWithoutCache(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: TestCustomResources runs the same behaviors with a watch cache")
	}
	topics := guarantees()
	for _, independent := range []string{"pruning", "defaulting", "validation", "ratcheting", "apply"} {
		delete(topics, independent)
	}
	testTopics(t, topics, "--watch-cache=false")
}

func testTopics(t *testing.T, topics map[string][]behavior, flags ...string) {
	srv := testserver.New(t, testserver.Options{Flags: flags})
	for topic, behaviors := range topics {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			for _, b := range behaviors {
				t.Run(b.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, newEnvironment(t, srv))
				})
			}
		})
	}
}

// guarantees returns the behaviors that docs/reference/conformance.md lists, keyed by topic.
func guarantees() map[string][]behavior {
	return map[string][]behavior{
		"responses":    responses,
		"lifecycle":    lifecycle,
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

// TestDocument checks that docs/reference/conformance.md names exactly the tested behaviors.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for topic, behaviors := range guarantees() {
		for _, b := range behaviors {
			name := strings.ReplaceAll(b.name, " ", "_")
			if names[topic+"/"+name] = true; !strings.Contains(string(text), name) {
				t.Errorf("%s/%s is not named", topic, name)
			}
		}
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if _, tests, found := strings.Cut(strings.ReplaceAll(line, "`", ""), "| crds "); found {
			first, _, _ := strings.Cut(strings.TrimSuffix(tests, " |"), ";")
			if topic, _, _ := strings.Cut(first, "/"); guarantees()[topic] != nil && !names[first] && !startsWithAny(first, names) {
				t.Errorf("there is no %s", first)
			}
		}
	}
}

// startsWithAny reports whether text starts with one of the names, followed by a comma and a space.
func startsWithAny(text string, names map[string]bool) bool {
	for name := range names {
		if strings.HasPrefix(text, name+", ") {
			return true
		}
	}
	return false
}
