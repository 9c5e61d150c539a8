package custom

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestGone checks that the removal of a resource is reported once, after a delay, unless the
// resource exists again.
func TestGone(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), time.Hour)
	var gone []schema.GroupResource
	s.config.Removed = func(r schema.GroupResource) { gone = append(gone, r) }
	for i, group := range []string{"gone.example.com", "back.example.com", "stays.example.com"} {
		s.observe(newEntry(widgetDefinition(group), int64(i+1)), true)
	}
	s.remove("widgets.gone.example.com", 10)
	s.remove("widgets.back.example.com", 11)
	s.observe(newEntry(widgetDefinition("back.example.com"), 12), true)
	s.sweep(time.Now())
	if len(gone) > 0 {
		t.Errorf("%v is gone at once", gone)
	}
	later := time.Now().Add(2 * sweepPeriod)
	s.sweep(later)
	s.sweep(later)
	if len(gone) != 1 || gone[0] != (schema.GroupResource{Group: "gone.example.com", Resource: "widgets"}) {
		t.Errorf("%v is gone", gone)
	}
}
