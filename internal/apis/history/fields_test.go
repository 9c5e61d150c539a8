package history

import (
	"fmt"
	"slices"
	"testing"
)

// TestRemovedElements checks that the paths of removed list elements are sorted, so that each read of a change
// returns the same fields, also if there are more than MaxFields.
func TestRemovedElements(t *testing.T) {
	t.Parallel()
	var containers []any
	for i := range MaxFields + 20 {
		containers = append(containers, map[string]any{"name": fmt.Sprintf("c%03d", i)})
	}
	before := map[string]any{"spec": map[string]any{"containers": containers}}
	after := map[string]any{"spec": map[string]any{"containers": containers[:1]}}
	paths, truncated := changedFields(before, after)
	if !truncated || len(paths) != MaxFields || !slices.IsSorted(paths) || paths[0] != "spec.containers[c001]" {
		t.Errorf("truncated %t, paths %v", truncated, paths)
	}
}
