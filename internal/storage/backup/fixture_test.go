package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// memory is a Target in memory. If fail returns an error for a call, the call fails; some failed uploads take
// effect nevertheless, as with a real network.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	fail    func() error
}

func newMemory() *memory {
	return &memory{objects: map[string][]byte{}, fail: func() error { return nil }}
}

func (m *memory) setFail(fail func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = fail
}

var errTarget = errors.New("the target is broken")

func (m *memory) Put(_ context.Context, name string, r io.Reader) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil {
		if rand.IntN(2) == 0 {
			m.objects[name] = content
		}
		return err
	}
	m.objects[name] = content
	return nil
}

func (m *memory) Get(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil {
		return nil, err
	}
	content, ok := m.objects[name]
	if !ok {
		return nil, ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (m *memory) List(context.Context) ([]Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(); err != nil {
		return nil, err
	}
	var objects []Object
	for name, content := range m.objects {
		objects = append(objects, Object{name, int64(len(content))})
	}
	return objects, nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return m.fail()
}

func (m *memory) String() string { return "memory:" }

// names returns the names of the objects with a suffix, in order.
func (m *memory) names(suffix string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := slices.Sorted(maps.Keys(m.objects))
	return slices.DeleteFunc(names, func(name string) bool { return !bytes.HasSuffix([]byte(name), []byte(suffix)) })
}

// contents are the values of a store, by key.
type contents map[string]string

// describe returns the comparable text of an entry.
func describe(e *kv.Entry) string {
	return fmt.Sprintf("%d-%d %s", e.Created, e.Modified, e.Value)
}

// contentsOf reads the state of a prefix at a revision; 0 selects the newest state.
func contentsOf(t *testing.T, b kv.Backend, prefix string, at kv.Revision) contents {
	t.Helper()
	got, err := b.Range(t.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), At: at})
	if err != nil {
		t.Fatal(err)
	}
	all := contents{}
	for i := range got.Entries {
		all[got.Entries[i].Key] = describe(&got.Entries[i])
	}
	return all
}

func openStore(t *testing.T, dir string) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// commitValue writes a value, and returns the revision.
func commitValue(t *testing.T, b kv.Backend, key, value string) kv.Revision {
	t.Helper()
	result, err := b.Commit(t.Context(), kv.Op{Key: key, Expect: kv.AnyRevision, Value: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

// startWriter starts a Writer with short intervals.
func startWriter(t *testing.T, config Config) *Writer {
	t.Helper()
	if config.Interval == 0 {
		config.Interval = time.Millisecond
	}
	w, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeWriter(t, w) })
	return w
}

func (w *Writer) lastError() error {
	w.state.Lock()
	defer w.state.Unlock()
	return w.state.err
}

func closeWriter(t *testing.T, w *Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

func awaitRevision(t *testing.T, w *Writer, at kv.Revision) {
	t.Helper()
	await(t, "the upload of revision "+strconv.FormatInt(int64(at), 10), func() bool { return w.Position() >= at })
}

func catalogOf(t *testing.T, target Target) *Catalog {
	t.Helper()
	c, err := ReadCatalog(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// restore restores a moment and returns the contents and the revision of the new store.
func restore(t *testing.T, source *Source, at Moment) (contents, Restored, kv.Revision) {
	t.Helper()
	plan, err := catalogOf(t, source.Target).Plan(at, "")
	if err != nil {
		t.Fatalf("plan %v: %v", at, err)
	}
	dir := t.TempDir()
	restored, err := source.Restore(t.Context(), plan, dir)
	if err != nil {
		t.Fatalf("restore %v: %v", at, err)
	}
	s := openStore(t, dir)
	defer s.Close()
	newest, err := s.CurrentRevision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return contentsOf(t, s, "", 0), restored, newest
}
