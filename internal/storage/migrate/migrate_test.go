package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

const prefix, others = "/registry/", "/registry.more/"

func newEtcd(t *testing.T) Etcd {
	t.Helper()
	s, err := etcd.Open(etcd.Config{Endpoints: etcdtest.Start(t, etcdtest.Options{}).URLs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return Etcd{Store: s, Name: "etcd", Prefix: prefix, Others: []string{others}}
}

// fill writes entries with and without expiry under both prefixes, and returns the final contents.
func fill(t *testing.T, b kv.Backend) map[string]string {
	t.Helper()
	want := make(map[string]string)
	for i := range 300 {
		folder := prefix
		if i%250%7 == 0 {
			folder = others
		}
		op := kv.Op{Key: fmt.Sprintf(folder+"pods/%03d", i%250), Value: []byte(strings.Repeat("v", i*37)), Expect: kv.AnyRevision}
		if i%10 == 0 {
			op.TTL = time.Hour
		}
		if _, err := b.Commit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		want[op.Key] = string(op.Value)
	}
	return want
}

type record struct {
	value   string
	expires bool
}

func content(t *testing.T, p Store) map[string]record {
	t.Helper()
	all := make(map[string]record)
	err := p.Read(t.Context(), Visitor{Record: func(r Record) error {
		if left := time.Until(r.Expires); !r.Expires.IsZero() && (left < 50*time.Minute || left > 70*time.Minute) {
			t.Errorf("%s expires in %s", r.Key, left)
		}
		all[r.Key] = record{string(r.Value), !r.Expires.IsZero()}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRoundTrip copies an embedded store to etcd, and back to an embedded store.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	first, cluster, second := Dir{Path: filepath.Join(t.TempDir(), "store")}, newEtcd(t), Dir{Path: filepath.Join(t.TempDir(), "store")}
	store, err := embedded.Open(embedded.Config{Dir: first.Path})
	if err != nil {
		t.Fatal(err)
	}
	values := fill(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	want := content(t, first)
	if len(want) != len(values) {
		t.Fatalf("%d keys, want %d", len(want), len(values))
	}
	stages := make(map[string]int64)
	out, err := Copy(t.Context(), first, cluster, Options{Progress: func(stage string, done, total int64) {
		if done > total {
			t.Errorf("%s %d of %d", stage, done, total)
		}
		stages[stage] = done
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := int64(len(want))
	if out.Keys != n || stages["copied"] != n || stages["verified"] != n {
		t.Errorf("copied %d keys of %d, progress %v", out.Keys, n, stages)
	}
	if d := cmp.Diff(want, content(t, cluster), cmp.AllowUnexported(record{})); d != "" {
		t.Errorf("in etcd (-want +got):\n%s", d)
	}
	back, err := Copy(t.Context(), cluster, second, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if back.Keys != out.Keys || back.Bytes != out.Bytes || back.Sum != out.Sum {
		t.Errorf("copy to etcd: %+v, copy back: %+v", out, back)
	}
	if d := cmp.Diff(want, content(t, second), cmp.AllowUnexported(record{})); d != "" {
		t.Errorf("copied back (-want +got):\n%s", d)
	}
	report, err := embedded.Check(t.Context(), second.Path, nil)
	if err != nil || report.Keys != n || report.Revision <= back.Revision {
		t.Errorf("the new store is %+v, %v; it must be ahead of revision %d", report, err, back.Revision)
	}
}

// TestNotEmpty checks that existing contents are replaced only with force, and then completely.
func TestNotEmpty(t *testing.T) {
	t.Parallel()
	from, to, cluster := Dir{Path: filepath.Join(t.TempDir(), "store")}, Dir{Path: filepath.Join(t.TempDir(), "store")}, newEtcd(t)
	for _, d := range []Dir{from, to} {
		store, err := embedded.Open(embedded.Config{Dir: d.Path})
		if err != nil {
			t.Fatal(err)
		}
		if d == from {
			fill(t, store)
		} else if _, err := store.Commit(t.Context(), kv.Op{Key: prefix + "old"}); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{prefix + "old", "/other/key"} {
		if _, err := cluster.Store.Commit(t.Context(), kv.Op{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	want := content(t, from)
	for _, target := range []Store{to, cluster} {
		if _, err := Copy(t.Context(), from, target, Options{}); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("copy to %s: error %v, want %v", target, err, ErrNotEmpty)
		}
		if _, err := Copy(t.Context(), from, target, Options{Force: true}); err != nil {
			t.Errorf("%s by force: %v", target, err)
		}
		if d := cmp.Diff(want, content(t, target), cmp.AllowUnexported(record{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", target, d)
		}
	}
	if e, _, err := cluster.Store.Get(t.Context(), "/other/key", 0); e == nil || err != nil {
		t.Errorf("a key with another prefix was deleted: %v", err)
	}
	backups, err := filepath.Glob(to.Path + ".replaced-*")
	if err != nil || len(backups) != 1 {
		t.Errorf("the old store was not retained: %v, %v", backups, err)
	}
}

// TestFailures checks that a failed copy does not change a target directory.
func TestFailures(t *testing.T) {
	t.Parallel()
	cluster := newEtcd(t)
	fill(t, cluster.Store)
	to := Dir{Path: filepath.Join(t.TempDir(), "store")}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Copy(ctx, cluster, to, Options{Progress: func(stage string, done, _ int64) {
		if stage == "copied" && done == 100 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := Copy(t.Context(), Dir{Path: filepath.Join(t.TempDir(), "none")}, cluster, Options{Force: true}); !errors.Is(err, ErrEmpty) {
		t.Errorf("copy from a missing directory: %v", err)
	}
	names, err := os.ReadDir(filepath.Dir(to.Path))
	if err != nil || len(names) != 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	// A key outside of the prefix would be lost.
	outside := Dir{Path: filepath.Join(t.TempDir(), "store")}
	store, err := embedded.Open(embedded.Config{Dir: outside.Path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), kv.Op{Key: "/elsewhere/key"}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Copy(t.Context(), outside, cluster, Options{Force: true}); err == nil || !strings.Contains(err.Error(), "choose another --etcd-prefix") {
		t.Errorf("a key with another prefix: %v", err)
	}
	if n := len(content(t, cluster)); n != 250 {
		t.Errorf("the target has %d keys after the failed copy", n)
	}
}

// TestInterruptedFill checks that a partially filled etcd cluster is marked as incomplete until a copy
// completes.
func TestInterruptedFill(t *testing.T) {
	t.Parallel()
	cluster := newEtcd(t)
	from := Dir{Path: filepath.Join(t.TempDir(), "store")}
	store, err := embedded.Open(embedded.Config{Dir: from.Path})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Copy(ctx, from, cluster, Options{Progress: func(stage string, done, _ int64) {
		if stage == "copied" && done >= 240 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	if err := cluster.Store.CheckComplete(t.Context(), prefix); !errors.Is(err, etcd.ErrIncomplete) {
		t.Errorf("check of a partial copy: %v", err)
	}
	to := Dir{Path: filepath.Join(t.TempDir(), "store")}
	if _, err := Copy(t.Context(), cluster, to, Options{}); !errors.Is(err, etcd.ErrIncomplete) {
		t.Errorf("copy from an incomplete store: %v", err)
	}
	if _, err := Copy(t.Context(), from, cluster, Options{Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Store.CheckComplete(t.Context(), prefix); err != nil {
		t.Errorf("check of a complete copy: %v", err)
	}
}

// memory is a target that loses the entries for which loses returns true before they are read back.
type memory struct {
	records []Record
	loses   func(Record) bool
}

func (m *memory) String() string                       { return "memory" }
func (m *memory) CheckSource(context.Context) error    { return nil }
func (m *memory) Count(context.Context) (int64, error) { return int64(len(m.records)), nil }

func (m *memory) Read(_ context.Context, to Visitor) error {
	for _, r := range m.records {
		if err := to.Record(r); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Fill(_ context.Context, from func(Visitor) error, check func(Store) error) error {
	err := from(Visitor{Record: func(r Record) error {
		if !m.loses(r) {
			m.records = append(m.records, r)
		}
		return nil
	}})
	if err != nil {
		return err
	}
	return check(m)
}

// TestExpiryDuringCopy checks that a copy is complete although keys expire before they are read back, and
// incomplete if another key is missing.
func TestExpiryDuringCopy(t *testing.T) {
	t.Parallel()
	from := &memory{records: []Record{
		{Entry: kv.Entry{Key: prefix + "a", Value: []byte("1")}},
		{Entry: kv.Entry{Key: prefix + "b", Value: []byte("2")}, Expires: time.Now()},
	}}
	for lost, want := range map[string]bool{"a": false, "b": true} {
		to := &memory{loses: func(r Record) bool { return r.Key == prefix+lost }}
		if out, err := Copy(t.Context(), from, to, Options{}); (err == nil) != want || want && out.Keys != 2 {
			t.Errorf("%s is missing: copied %d keys, error %v", lost, out.Keys, err)
		}
	}
}

// hookContext calls a function when its Done channel has been requested a number of times.
type hookContext struct {
	context.Context
	left atomic.Int64
	hook func()
}

func (c *hookContext) Done() <-chan struct{} {
	if c.left.Add(-1) == 0 {
		c.hook()
	}
	return c.Context.Done()
}

// TestExpiryDuringRead checks that a key of etcd is not read without its expiry if it expires during the read.
func TestExpiryDuringRead(t *testing.T) {
	t.Parallel()
	cluster := newEtcd(t)
	if _, err := cluster.Store.Commit(t.Context(), kv.Op{Key: prefix + "a", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	counter := &hookContext{Context: t.Context()}
	if _, err := cluster.Store.CurrentRevision(counter); err != nil {
		t.Fatal(err)
	}
	ctx := &hookContext{Context: t.Context(), hook: func() {
		if _, err := cluster.Store.Commit(t.Context(), kv.Op{Key: prefix + "a", Kind: kv.OpDelete, Expect: kv.AnyRevision}); err != nil {
			t.Error(err)
		}
	}}
	ctx.left.Store(1 - counter.left.Load()) // after the first request of the read
	err := cluster.Read(ctx, Visitor{Record: func(r Record) error {
		if r.Expires.IsZero() {
			t.Errorf("%s does not expire", r.Key)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if left := ctx.left.Load(); left > 0 {
		t.Errorf("the key was not deleted: %d requests are missing", left)
	}
}

// TestFailedRename checks that a directory still has its old store if the new store cannot be renamed.
func TestFailedRename(t *testing.T) {
	t.Parallel()
	to := Dir{Path: filepath.Join(t.TempDir(), "store")}
	store, err := embedded.Open(embedded.Config{Dir: to.Path})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	from := &memory{records: []Record{{Entry: kv.Entry{Key: prefix + "a", Created: 1, Modified: 1}}}}
	source := func(to Visitor) error {
		if err := to.Begin(1); err != nil {
			return err
		}
		return from.Read(t.Context(), to)
	}
	err = to.Fill(t.Context(), source, func(next Store) error { return os.RemoveAll(next.String()) })
	if err == nil {
		t.Error("the new store does not exist, but Fill returned no error")
	}
	if n, err := to.Count(t.Context()); n != 250 || err != nil {
		t.Errorf("the old store has %d keys, error %v; want 250 keys", n, err)
	}
}
