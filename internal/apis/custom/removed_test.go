package custom

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestRemoved checks that the removal of a resource is reported once, after a delay, unless the resource was
// recreated in the meantime.
func TestRemoved(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), time.Hour)
	var removed []schema.GroupResource
	s.config.Removed = func(r schema.GroupResource) { removed = append(removed, r) }
	for i, group := range []string{"gone.example.com", "back.example.com", "stays.example.com"} {
		s.observe(newEntry(widgetDefinition(group), int64(i+1)), true)
	}
	s.remove("widgets.gone.example.com", 10)
	s.remove("widgets.back.example.com", 11)
	s.observe(newEntry(widgetDefinition("back.example.com"), 12), true)
	s.sweep(time.Now())
	if len(removed) > 0 {
		t.Errorf("%v was reported immediately", removed)
	}
	later := time.Now().Add(2 * sweepPeriod)
	s.sweep(later)
	s.sweep(later)
	if len(removed) != 1 || removed[0] != (schema.GroupResource{Group: "gone.example.com", Resource: "widgets"}) {
		t.Errorf("reported: %v", removed)
	}
}
