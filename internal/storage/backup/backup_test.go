package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/origin"
)

// TestTimes restores the states between commits with known times.
func TestTimes(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	first := commitValue(t, s, "/a", "0")
	w := startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, first)
	begin := time.Now().Add(time.Hour)
	for i, value := range []string{"1", "2", "3"} {
		o := origin.Origin{Time: begin.Add(time.Duration(i) * time.Minute)}
		if _, err := s.Commit(t.Context(), kv.Op{Key: "/a", Expect: kv.AnyRevision, Value: []byte(value), Origin: o.Encode()}); err != nil {
			t.Fatal(err)
		}
	}
	// An earlier time, after the clock was set back.
	if _, err := s.Commit(t.Context(), kv.Op{Key: "/b", Expect: kv.AnyRevision, Value: []byte("4"), Origin: (&origin.Origin{Time: begin}).Encode()}); err != nil {
		t.Fatal(err)
	}
	awaitRevision(t, w, first+4)
	source := &Source{Target: target}
	for _, test := range []struct {
		at   Moment
		want contents
	}{
		{Moment{Time: begin.Add(-time.Minute)}, contents{"/a": "2-2 0"}},
		{Moment{Time: begin}, contents{"/a": "2-3 1"}},
		{Moment{Time: begin.Add(59 * time.Second)}, contents{"/a": "2-3 1"}},
		{Moment{Time: begin.Add(61 * time.Second)}, contents{"/a": "2-4 2"}},
		{Moment{Time: begin.Add(2 * time.Minute)}, contents{"/a": "2-5 3", "/b": "6-6 4"}},
		{Moment{}, contents{"/a": "2-5 3", "/b": "6-6 4"}},
	} {
		got, _, _ := restore(t, source, test.at)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v: got (+), want (-):\n%s", test.at, diff)
		}
	}
}

// TestExpiry checks that a restored key expires, even if only a segment contains it.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	put := func(key string, ttl time.Duration) kv.Revision {
		result, err := s.Commit(t.Context(), kv.Op{Key: key, Expect: kv.AnyRevision, Value: []byte("x"), TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return result.Revision
	}
	first := put("/base", time.Second)
	w := startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, first)
	put("/segment", time.Second)
	last := put("/later", time.Hour)
	awaitRevision(t, w, last)
	plan, err := catalogOf(t, target).Plan(Moment{Revision: last}, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := (&Source{Target: target}).Restore(t.Context(), plan, dir); err != nil {
		t.Fatal(err)
	}
	restored := openStore(t, dir)
	await(t, "the expiry", func() bool { return len(contentsOf(t, restored, "", 0)) == 1 })
	if _, err := embedded.Check(t.Context(), copyOf(t, restored, dir), nil); err != nil {
		t.Error(err)
	}
}

// copyOf closes a store, and returns its directory.
func copyOf(t *testing.T, s *embedded.Store, dir string) string {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEncryption checks that objects are encrypted, and that only the right identity can decrypt them.
func TestEncryption(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	right, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	first := commitValue(t, s, "/secret", "base")
	config := Config{Backend: s, Target: target, Recipients: []age.Recipient{right.Recipient()}}
	w := startWriter(t, config)
	awaitRevision(t, w, first)
	awaitRevision(t, w, commitValue(t, s, "/secret", "segment"))
	closeWriter(t, w)
	w = startWriter(t, config) // continues without the identity
	awaitRevision(t, w, commitValue(t, s, "/other", "segment"))
	c := catalogOf(t, target)
	if len(c.Generations) != 1 {
		t.Errorf("%d generations, want 1", len(c.Generations))
	}
	want := contents{"/secret": "2-3 segment", "/other": "4-4 segment"}
	if got, _, _ := restore(t, &Source{Target: target, Identities: []age.Identity{wrong, right}}, Moment{}); cmp.Diff(want, got) != "" {
		t.Errorf("%v, want %v", got, want)
	}
	for what, identities := range map[string][]age.Identity{"none": nil, "wrong": {wrong}} {
		source := &Source{Target: target, Identities: identities}
		plan, err := c.Plan(Moment{}, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.Restore(t.Context(), plan, t.TempDir()); !errors.Is(err, ErrEncrypted) {
			t.Errorf("%s: %v, want ErrEncrypted", what, err)
		}
		v, err := source.Verify(t.Context(), c)
		if err != nil || v.Opaque != v.Objects || len(v.Problems) > 0 {
			t.Errorf("%s: verify the backup: %+v, error %v", what, v, err)
		}
	}
	for name, content := range target.objects {
		if bytes.Contains(content, []byte("secret")) {
			t.Errorf("%s contains plain text", name)
		}
	}
}

// TestDamage changes each byte of each object, and truncates each object before each byte. Verify must report
// each damage.
func TestDamage(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	first := commitValue(t, s, "/a", "base")
	w := startWriter(t, Config{Backend: s, Target: target, Recipients: []age.Recipient{identity.Recipient()}})
	awaitRevision(t, w, first)
	awaitRevision(t, w, commitValue(t, s, "/a", "segment"))
	closeWriter(t, w)
	c := catalogOf(t, target)
	for name, content := range target.objects {
		for at := range len(content) {
			damaged := bytes.Clone(content)
			damaged[at] ^= 0x10
			for what, changed := range map[string][]byte{"flipped": damaged, "truncated": content[:at]} {
				other := &memory{objects: map[string][]byte{name: changed}, fail: func() error { return nil }}
				for n, good := range target.objects {
					if n != name {
						other.objects[n] = good
					}
				}
				for _, identities := range [][]age.Identity{nil, {identity}} {
					v, err := (&Source{Target: other, Identities: identities}).Verify(t.Context(), c)
					if err != nil || len(v.Problems) != 1 || !errors.Is(v.Problems[0], kv.ErrCorrupt) {
						t.Fatalf("%s %s at byte %d: %v, %v", name, what, at, v.Problems, err)
					}
				}
			}
		}
	}
	missing := newMemory()
	v, err := (&Source{Target: missing}).Verify(t.Context(), c)
	if err != nil || len(v.Problems) != 2 {
		t.Errorf("missing objects: %v, %v", v.Problems, err)
	}
}

// TestRestoreDamaged checks that no store remains after an error.
func TestRestoreDamaged(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	w := startWriter(t, Config{Backend: s, Target: target})
	for range 5 {
		awaitRevision(t, w, commitValue(t, s, "/a", strings.Repeat("x", 100)))
	}
	plan, err := catalogOf(t, target).Plan(Moment{}, "")
	if err != nil {
		t.Fatal(err)
	}
	base := target.objects[plan.Base.Name]
	target.objects[plan.Base.Name] = base[:len(base)-1]
	dir := t.TempDir()
	source := &Source{Target: target}
	if _, err := source.Restore(t.Context(), plan, dir); !errors.Is(err, kv.ErrCorrupt) || !strings.Contains(err.Error(), plan.Base.Name) {
		t.Errorf("restore a damaged base: error %v, want %v for %s", err, kv.ErrCorrupt, plan.Base.Name)
	}
	target.objects[plan.Base.Name] = base
	if _, err := source.Restore(t.Context(), plan, dir); err != nil {
		t.Errorf("into the same directory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Restore(ctx, plan, t.TempDir()); err == nil {
		t.Error("restored with a context that has ended")
	}
}

// TestOtherStore checks that a store does not continue the generation of another store.
func TestOtherStore(t *testing.T) {
	t.Parallel()
	target := newMemory()
	for n, value := range []string{"one", "other"} {
		s := openStore(t, t.TempDir())
		w := startWriter(t, Config{Backend: s, Target: target})
		for range 3 {
			commitValue(t, s, "/a", value)
		}
		awaitRevision(t, w, commitValue(t, s, "/a", value))
		awaitRevision(t, w, commitValue(t, s, "/a", value))
		closeWriter(t, w)
		if got := len(catalogOf(t, target).Generations); got != n+1 {
			t.Fatalf("%d generations, want %d", got, n+1)
		}
	}
	got, _, _ := restore(t, &Source{Target: target}, Moment{})
	if want := (contents{"/a": "2-6 other"}); cmp.Diff(want, got) != "" {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRestoredStore checks that a restored store begins a new generation, and that revisions increase with
// each restore of the same backup.
func TestRestoredStore(t *testing.T) {
	t.Parallel()
	target, dir := newMemory(), t.TempDir()
	var last kv.Revision
	for n := range 3 {
		s := openStore(t, dir)
		at := commitValue(t, s, "/a", "x")
		if at <= last {
			t.Fatalf("revision %d is not greater than %d", at, last)
		}
		w := startWriter(t, Config{Backend: s, Target: target})
		awaitRevision(t, w, at)
		last = commitValue(t, s, "/a", "y")
		awaitRevision(t, w, last)
		closeWriter(t, w)
		c := catalogOf(t, target)
		if len(c.Generations) != n+1 {
			t.Fatalf("%d generations, want %d", len(c.Generations), n+1)
		}
		plan, err := c.Plan(Moment{Revision: 2}, "") // of the first store
		if err != nil {
			t.Fatal(err)
		}
		dir = t.TempDir()
		if _, err := (&Source{Target: target}).Restore(t.Context(), plan, dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompacted checks that a new generation begins if the store no longer has the changes, and that a moment
// in the gap cannot be restored.
func TestCompacted(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	w := startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, commitValue(t, s, "/a", "1"))
	awaitRevision(t, w, commitValue(t, s, "/a", "2"))
	closeWriter(t, w)
	var last kv.Revision
	for range 3 {
		last = commitValue(t, s, "/a", "missing")
	}
	if err := s.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	between := time.Now()
	w = startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, commitValue(t, s, "/a", "3"))
	c := catalogOf(t, target)
	if len(c.Generations) != 2 {
		t.Errorf("%d generations, want 2", len(c.Generations))
	}
	if _, err := c.Plan(Moment{Time: between}, ""); !errors.Is(err, ErrNotCovered) {
		t.Errorf("a moment without commits: %v", err)
	}
}

// TestBrokenTarget checks that the store works while the target fails, that the lag is reported, and that
// the backup continues afterwards.
func TestBrokenTarget(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	target.setFail(func() error { return errTarget })
	w := startWriter(t, Config{Backend: s, Target: target})
	await(t, "an error", func() bool { return w.lastError() != nil })
	at := commitValue(t, s, "/a", "1")
	if w.Lag() == 0 {
		t.Error("no lag")
	}
	if err := w.Check(); err != nil {
		t.Errorf("after a short time: %v", err)
	}
	w.state.Lock()
	w.state.pending = time.Now().Add(-time.Hour)
	w.state.Unlock()
	if err := w.Check(); !errors.Is(err, errTarget) || !strings.Contains(err.Error(), "1h0m0s behind") {
		t.Errorf("after an hour: %v", err)
	}
	target.setFail(func() error { return nil })
	awaitRevision(t, w, at)
	await(t, "no lag", func() bool { return w.Lag() == 0 && w.Check() == nil })
	target.setFail(func() error { return errTarget })
	commitValue(t, s, "/a", "2")
	await(t, "another error", func() bool { return w.lastError() != nil })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Close(ctx); !errors.Is(err, errTarget) {
		t.Errorf("Close: %v", err)
	}
	target.setFail(func() error { return nil })
	w.setPending(time.Time{}) // for the cleanup
}

// TestHeldHistory checks that the store keeps the changes that an earlier process did not upload, while the
// target does not respond.
func TestHeldHistory(t *testing.T) {
	t.Parallel()
	dir, target := t.TempDir(), newMemory()
	s := openStore(t, dir)
	first := commitValue(t, s, "/a", "1")
	w := startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, first)
	closeWriter(t, w)
	if err := s.Compact(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	missing := commitValue(t, s, "/a", "2")
	last := commitValue(t, s, "/a", "3")
	target.setFail(func() error { return errTarget })
	w = startWriter(t, Config{Backend: s, Target: target})
	await(t, "an error", func() bool { return w.lastError() != nil })
	if err := s.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	target.setFail(func() error { return nil })
	awaitRevision(t, w, last)
	if _, restored, _ := restore(t, &Source{Target: target}, Moment{Revision: missing}); restored.Revision != missing {
		t.Errorf("restored revision %d, want %d", restored.Revision, missing)
	}
}

// TestTimesAfterFailure checks that a failed upload does not change the times of its commits.
func TestTimesAfterFailure(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	w := startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, commitValue(t, s, "/a", "0"))
	target.setFail(func() error { return errTarget })
	begin := time.Now().Add(time.Hour)
	var last kv.Revision
	for i, value := range []string{"1", "2", "3"} {
		o := origin.Origin{Time: begin.Add(time.Duration(i) * time.Minute)}
		result, err := s.Commit(t.Context(), kv.Op{Key: "/a", Expect: kv.AnyRevision, Value: []byte(value), Origin: o.Encode()})
		if err != nil {
			t.Fatal(err)
		}
		last = result.Revision
	}
	await(t, "an error", func() bool { return w.lastError() != nil })
	target.setFail(func() error { return nil })
	awaitRevision(t, w, last)
	for i, want := range []kv.Revision{last - 2, last - 1, last} {
		at := Moment{Time: begin.Add(time.Duration(i)*time.Minute + time.Second)}
		if _, restored, _ := restore(t, &Source{Target: target}, at); restored.Revision != want {
			t.Errorf("restored revision %d of %v, want %d", restored.Revision, at.Time, want)
		}
	}
}

// TestRetention checks that old objects are deleted, and the rest can be restored.
func TestRetention(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	w := startWriter(t, Config{Backend: s, Target: target, BaseInterval: 5 * time.Millisecond, Retention: 50 * time.Millisecond})
	var last kv.Revision
	first := ""
	await(t, "the deletion of the first base", func() bool {
		last = commitValue(t, s, "/a", "x")
		bases := target.names(baseSuffix)
		if len(bases) > 0 && first == "" {
			first = bases[0]
		}
		return first != "" && len(bases) > 0 && bases[0] != first
	})
	awaitRevision(t, w, last)
	closeWriter(t, w)
	if _, restored, _ := restore(t, &Source{Target: target}, Moment{}); restored.Revision != last {
		t.Errorf("restored revision %d, want %d", restored.Revision, last)
	}
}

// TestPinBeforeBase checks that another base is uploaded if a state is pinned that is older than the base.
func TestPinBeforeBase(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), newMemory()
	pinned := commitValue(t, s, "/a/x", "1")
	last := commitValue(t, s, "/a/x", "2")
	w := startWriter(t, Config{Backend: s, Target: target})
	awaitRevision(t, w, last)
	if err := s.Pin(t.Context(), "o", "/a/", pinned); err != nil {
		t.Fatal(err)
	}
	last = commitValue(t, s, "/a/x", "3")
	await(t, "another base", func() bool { return len(target.names(baseSuffix)) == 2 })
	closeWriter(t, w)
	plan, err := catalogOf(t, target).Plan(Moment{Revision: last}, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := (&Source{Target: target}).Restore(t.Context(), plan, dir); err != nil {
		t.Fatal(err)
	}
	restored := openStore(t, dir)
	if got := contentsOf(t, restored, "/a/", pinned); got["/a/x"] != "2-2 1" {
		t.Errorf("the pinned state is %v", got)
	}
}

// TestOverlappingSegments checks that a restore reads each version once if two segments contain the same
// commits, because the upload of the first segment took effect although it failed.
func TestOverlappingSegments(t *testing.T) {
	t.Parallel()
	target := newMemory()
	plan := &Plan{Base: Base{Revision: 1, Time: time.Unix(1, 0)}}
	for _, last := range []kv.Revision{4, 5} {
		b := newSegmentBuilder(1, time.Unix(1, 0))
		for rev := kv.Revision(2); rev <= last; rev++ {
			if err := b.add([]kv.Event{{Key: "/a/x", Revision: rev, Created: 2, Value: []byte("v")}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		segment, err := b.put(t.Context(), target, "g", []kv.Pin{{Revision: 2, Prefix: "/a/", Owner: "o"}, {Revision: 3, Prefix: "/a/", Owner: "o"}})
		if err != nil {
			t.Fatal(err)
		}
		plan.Segments = append(plan.Segments, segment)
	}
	r := &restorer{Source: &Source{Target: target}, plan: plan, seen: map[string]kv.Revision{}}
	var got []kv.Revision
	for record, err := range r.records(t.Context()) {
		if errors.Is(err, ErrNotExist) {
			break // the base
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, record.Modified)
	}
	if want := []kv.Revision{5, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("the revisions of the versions are %v, want %v", got, want)
	}
}

// FuzzReadObject reads arbitrary objects.
func FuzzReadObject(f *testing.F) {
	var buf bytes.Buffer
	b := newSegmentBuilder(0, time.Unix(1, 0))
	events := []kv.Event{{Key: "/a", Revision: 3, Created: 2, Value: []byte("x"), Expires: 9}, {Key: "/b", Revision: 3, Deleted: true}}
	if err := b.add(events, nil); err != nil {
		f.Fatal(err)
	}
	if err := b.object.close(mark{}); err != nil {
		f.Fatal(err)
	}
	buf.Write(b.buf.Bytes())
	f.Add(buf.Bytes(), appendPins(b.raw, []kv.Pin{{Revision: 2, Prefix: "/a/", Owner: "o"}}))
	f.Fuzz(func(t *testing.T, object, raw []byte) {
		source := &Source{Target: &memory{objects: map[string][]byte{"x": object}, fail: func() error { return nil }}}
		segment := &Segment{Object: Object{Name: "x"}, First: 1, Last: 3}
		_, _ = source.readSegment(t.Context(), segment) // must not panic
		_ = source.readBase(t.Context(), &Base{Object: segment.Object}, embedded.SnapshotReader{})
		content, err := readSegmentContent(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var again []byte
		for _, c := range content.commits {
			again = appendCommit(again, c)
		}
		if content.pins != nil {
			again = appendPins(again, content.pins)
		}
		decoded, err := readSegmentContent(bytes.NewReader(again))
		if diff := cmp.Diff(content, decoded, cmp.AllowUnexported(segmentContent{}, commit{})); diff != "" || err != nil {
			t.Errorf("encoded and decoded again: %v %s", err, diff)
		}
	})
}

// brokenBase is a Target on which the upload of a second base does not end before it is canceled. All uploads
// of other objects fail after this upload has begun.
type brokenBase struct {
	*memory
	bases atomic.Int64
}

func (b *brokenBase) Put(ctx context.Context, name string, r io.Reader) error {
	if strings.HasSuffix(name, baseSuffix) && b.bases.Add(1) > 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	if b.bases.Load() > 1 {
		return errTarget
	}
	return b.memory.Put(ctx, name, r)
}

// TestInterruptedBase checks that a periodic base is retried soon if it was canceled because a segment was
// not uploaded.
func TestInterruptedBase(t *testing.T) {
	t.Parallel()
	s, target := openStore(t, t.TempDir()), &brokenBase{memory: newMemory()}
	pinned := commitValue(t, s, "/a/x", "1")
	commitValue(t, s, "/a/x", "base")
	w, err := Start(Config{Backend: s, Target: target, Interval: time.Millisecond, BaseInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the first base", func() bool { return w.Position() > 0 })
	if err := s.Pin(t.Context(), "o", "/a/", pinned); err != nil { // requires a second base
		t.Fatal(err)
	}
	commitValue(t, s, "/a/x", "segment")
	await(t, "the second base", func() bool { return target.bases.Load() == 2 })
	commitValue(t, s, "/a/x", "failure")
	await(t, "a failure", func() bool { return w.lastError() != nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); !errors.Is(err, errTarget) {
		t.Fatalf("Close: %v", err)
	}
	if wait := time.Until(w.nextBase); wait > baseRetry {
		t.Errorf("the base is retried after %s, want at most %s", wait, baseRetry)
	}
}

// TestBaseRetryDelay checks that the message about a failed base contains the delay before the next attempt,
// which is not longer than the base interval.
func TestBaseRetryDelay(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	w := &Writer{config: Config{BaseInterval: time.Minute}, log: slog.New(slog.NewTextHandler(&text, nil))}
	f := &follower{Writer: w, cancelBase: func() {}}
	f.baseEnded(baseResult{err: errTarget})
	if wait := time.Until(f.nextBase); wait > time.Minute || !strings.Contains(text.String(), "after=1m0s") {
		t.Errorf("the base is retried after %s: %s", wait, &text)
	}
}

// countedHolds is a store that counts the calls of Hold.
type countedHolds struct {
	kv.Backend
	holds atomic.Int64
}

func (c *countedHolds) Hold(ctx context.Context, at kv.Revision) (kv.Revision, func(), error) {
	c.holds.Add(1)
	return c.Backend.Hold(ctx, at)
}

// TestHoldAfterIdleTime checks that the first commit after an idle time begins a new hold, because the last hold
// may have ended, and that failures do not extend it.
func TestHoldAfterIdleTime(t *testing.T) {
	t.Parallel()
	s, target := &countedHolds{Backend: openStore(t, t.TempDir())}, newMemory()
	commitValue(t, s, "/a/x", "base")
	w, err := Start(Config{Backend: s, Target: target, Interval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the base", func() bool { return w.Position() > 0 && w.Lag() == 0 })
	var failures atomic.Int64
	target.setFail(func() error {
		failures.Add(1)
		return errTarget
	})
	idle := s.holds.Load()
	commitValue(t, s, "/a/x", "1")
	await(t, "two failures", func() bool { return failures.Load() >= 2 })
	if n := s.holds.Load() - idle; n != 1 {
		t.Errorf("%d holds after a commit, want 1", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); err == nil {
		t.Error("Close returned no error, although a commit was not uploaded")
	}
}
