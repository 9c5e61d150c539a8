package cache

import (
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage"
)

// TestRest checks that an idle log releases its memory, without an effect on watches at its end.
func TestRest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newLog(0, LogLimits{}.withDefaults())
	for revision := range int64(100) {
		l.append(&storage.Change{Key: strings.Repeat("k", 100<<10), Revision: revision + 1}, nil, now)
	}
	l.trimIdle(now.Add(idleAfter / 2))
	if n := l.end - l.first; n != 100 {
		t.Fatalf("%d changes are left while they may still come", n)
	}
	l.trimIdle(now.Add(idleAfter))
	if n := l.end - l.first; n < 5 || l.bytes > maxIdleBytes {
		t.Fatalf("%d changes of %d bytes are left", n, l.bytes)
	}
	if position, ok := l.after(100); !ok || position != l.end {
		t.Errorf("the end: %d, %v", position, ok)
	}
	if _, ok := l.after(1); ok {
		t.Error("what is gone can still be read")
	}
	l.append(&storage.Change{Key: "k", Revision: 101}, nil, now)
	if position, ok := l.after(100); !ok || l.at(position).change.Revision != 101 {
		t.Errorf("the next one: %d, %v", position, ok)
	}
}
