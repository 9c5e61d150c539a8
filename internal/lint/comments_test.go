package lint

import (
	"strings"
	"testing"
)

// TestPackageComments checks that every package has a package comment.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range ours(t) {
		start := "Package " + p.Name + " "
		if p.Name == "main" {
			start = "Command "
		}
		if source := parse(t, p); !strings.HasPrefix(source.comment(), start) {
			t.Errorf("%s: the package comment does not start with %q", p.path(), start)
		}
	}
}
