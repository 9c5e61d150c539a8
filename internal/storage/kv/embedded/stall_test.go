package embedded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// lines contains log output. It is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), text)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// TestStall checks that Health and the log report a sync that does not end, and that Health returns nil again
// after the sync has ended. Until then, the commit is neither rejected nor acknowledged.
func TestStall(t *testing.T) {
	t.Parallel()
	var gate atomic.Pointer[chan struct{}]
	var log lines
	hang := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if ch := gate.Load(); ch != nil && pebblefs.IsLog(op.Path) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			<-*ch
		}
		return nil
	})
	s := open(t, Config{Dir: "d", FS: errorfs.Wrap(vfs.NewMem(), hang), Logger: log.logger(), stallAfter: time.Millisecond})
	hung := make(chan struct{})
	gate.Store(&hung)
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.WithoutCancel(t.Context()), kv.Op{Key: "a", Value: []byte("x")})
		done <- err
	}()
	await(t, "health to fail", func() bool { return errors.Is(s.Health(t.Context()), kv.ErrUnavailable) })
	await(t, "a line in the log", func() bool { return log.has("a write to the store does not end") })
	select {
	case err := <-done:
		t.Errorf("the commit ended: %v", err)
	default:
	}
	gate.Store(nil)
	close(hung)
	if err := <-done; err != nil {
		t.Errorf("commit: %v", err)
	}
	await(t, "health", func() bool { return s.Health(t.Context()) == nil })
	await(t, "another line", func() bool { return log.has("has ended") })
}

// TestHealthAfterDamage checks that Health names a damaged table after a read has detected the damage.
func TestHealthAfterDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Retention: -1})
	fill(t, s, 3000)
	if err := s.engine.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		raw, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		raw[len(raw)/3] ^= 0x40
		if err := os.WriteFile(table, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, Config{Dir: dir, Retention: -1})
	if _, err := s.Range(t.Context(), kv.RangeRequest{}); !errors.Is(err, kv.ErrCorrupt) {
		t.Fatalf("range: %v", err)
	}
	if err := s.Health(t.Context()); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), ".sst is damaged; restore") {
		t.Errorf("health: %v", err)
	}
}
