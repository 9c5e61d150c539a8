package cache

import (
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage"
)

// TestTrimIdle checks that an idle log releases memory without affecting watches that have read all changes.
func TestTrimIdle(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLog(0, LogLimits{}.withDefaults())
	for revision := range int64(100) {
		l.append(&storage.Change{Key: strings.Repeat("k", 100<<10), Revision: revision + 1}, nil, now)
	}
	l.trimIdle(now.Add(idleAfter / 2))
	if n := l.end - l.first; n != 100 {
		t.Fatalf("%d changes before the log is idle", n)
	}
	l.trimIdle(now.Add(idleAfter))
	if n := l.end - l.first; n < 5 || l.bytes > maxIdleBytes {
		t.Fatalf("%d changes of %d bytes in the idle log", n, l.bytes)
	}
	if position, ok := l.after(100); !ok || position != l.end {
		t.Errorf("position after the last change: %d, %v", position, ok)
	}
	if _, ok := l.after(1); ok {
		t.Error("a dropped change can still be read")
	}
	l.append(&storage.Change{Key: "k", Revision: 101}, nil, now)
	if position, ok := l.after(100); !ok || l.at(position).change.Revision != 101 {
		t.Errorf("position of the next change: %d, %v", position, ok)
	}
}
