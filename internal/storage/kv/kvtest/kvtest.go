// Package kvtest is a test suite for the backends of package kv. It checks the contract of kv.Backend, and
// compares the results of random operations with those of an in-memory model. The environment variables
// KVTEST_OPERATIONS and KVTEST_SEED set the number of operations and the seed. The features of a specific
// backend (files, crashes, networks) are tested in the package of that backend.
package kvtest

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// timeout is the timeout for events that should happen immediately. Only failures take that long.
const timeout = 30 * time.Second

// Run runs the suite. open returns an empty backend, which the suite closes. It is called once for each test
// of the suite. The tests run in parallel.
func Run(t *testing.T, open func(t *testing.T) kv.Backend) {
	for _, c := range []struct {
		name string
		test func(*testing.T, kv.Backend)
	}{
		{"Empty", testEmpty},
		{"PutGet", testPutGet},
		{"ValuesAreKept", testValues},
		{"Keys", testKeys},
		{"GetAtRevision", testGetAtRevision},
		{"Range", testRange},
		{"RangeBounds", testRangeBounds},
		{"RangeLimit", testRangeLimit},
		{"RangeCounted", testRangeCounted},
		{"TooLarge", testTooLarge},
		{"RangeAtRevision", testRangeAtRevision},
		{"RangeManyVersions", testRangeManyVersions},
		{"Compare", testCompare},
		{"CompareAtomic", testCompareAtomic},
		{"CheckAndAny", testCheckAndAny},
		{"DeleteAbsent", testDeleteAbsent},
		{"NothingWritten", testNothingWritten},
		{"MultipleOps", testMultipleOps},
		{"MeaninglessCommits", testInvalidCommits},
		{"ConcurrentRevisions", testConcurrentRevisions},
		{"ConcurrentCounter", testConcurrentCounter},
		{"ReadAfterAcknowledge", testReadAfterAcknowledge},
		{"Context", testContext},
		{"Compact", testCompact},
		{"Hold", testHold},
		{"HoldContext", testHoldContext},
		{"HoldErrors", testHoldErrors},
		{"HoldConcurrent", testHoldConcurrent},
		{"RevisionAt", testRevisionAt},
		{"TTL", testTTL},
		{"TTLReplaced", testTTLReplaced},
		{"WatchOrder", testWatchOrder},
		{"WatchEvents", testWatchEvents},
		{"WatchRange", testWatchRange},
		{"WatchAtomic", testWatchAtomic},
		{"WatchProgress", testWatchProgress},
		{"WatchFromFirst", testWatchFromFirst},
		{"WatchFromOld", testWatchFromOld},
		{"WatchFromFuture", testWatchFromFuture},
		{"WatchCompacted", testWatchCompacted},
		{"WatchSlow", testWatchSlow},
		{"WatchMany", testWatchMany},
		{"WatchStop", testWatchStop},
		{"WatchContext", testWatchContext},
		{"WatchSeesWhatReadsSee", testWatchSeesWhatReadsSee},
		{"Close", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			t.Cleanup(func() { _ = b.Close() })
			c.test(t, b)
		})
	}
	t.Run("Model", func(t *testing.T) {
		t.Parallel()
		testModel(t, open)
	})
}

// put writes a key, whatever its current state.
func put(t *testing.T, b kv.Backend, key, value string) kv.Revision {
	t.Helper()
	return commit(t, b, kv.Op{Key: key, Value: []byte(value), Expect: kv.AnyRevision})
}

// remove deletes a key, whatever its current state.
func remove(t *testing.T, b kv.Backend, key string) kv.Revision {
	t.Helper()
	return commit(t, b, kv.Op{Key: key, Kind: kv.OpDelete, Expect: kv.AnyRevision})
}

// commit commits a transaction and requires that its conditions are satisfied.
func commit(t *testing.T, b kv.Backend, ops ...kv.Op) kv.Revision {
	t.Helper()
	res := tryCommit(t, b, ops...)
	if !res.Committed {
		t.Fatalf("commit of %q was rejected: current entries %v", ops[0].Key, res.Current)
	}
	return res.Revision
}

// tryCommit commits a transaction whose conditions may be false.
func tryCommit(t *testing.T, b kv.Backend, ops ...kv.Op) kv.CommitResult {
	t.Helper()
	res, err := b.Commit(t.Context(), ops...)
	if err != nil {
		t.Fatalf("commit of %q: %v", ops[0].Key, err)
	}
	return res
}

func get(t *testing.T, b kv.Backend, key string, at kv.Revision) *kv.Entry {
	t.Helper()
	e, rev, err := b.Get(t.Context(), key, at)
	if err != nil {
		t.Fatalf("get %q at %d: %v", key, at, err)
	}
	if at != 0 && rev != at {
		t.Fatalf("get %q at %d: result has revision %d", key, at, rev)
	}
	return e
}

func list(t *testing.T, b kv.Backend, req kv.RangeRequest) kv.RangeResult {
	t.Helper()
	res, err := b.Range(t.Context(), req)
	if err != nil {
		t.Fatalf("range %+v: %v", req, err)
	}
	if req.At != 0 && res.Revision != req.At {
		t.Fatalf("range %+v: result has revision %d", req, res.Revision)
	}
	return res
}

func current(t *testing.T, b kv.Backend) kv.Revision {
	t.Helper()
	rev, err := b.CurrentRevision(t.Context())
	if err != nil {
		t.Fatalf("current revision: %v", err)
	}
	return rev
}

func keys(entries []kv.Entry) []string {
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.Key)
	}
	return out
}

func diff(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// watching reads a watch and checks the general guarantees of watches.
type watching struct {
	t     *testing.T
	w     kv.Watch
	start string
	end   string
	// delivered is the revision of the last batch.
	delivered kv.Revision
	// from is the first requested revision, or 0.
	from   kv.Revision
	events []kv.Event
}

func watch(t *testing.T, b kv.Backend, start, end string, from kv.Revision) *watching {
	t.Helper()
	w, err := b.Watch(t.Context(), start, end, from)
	if err != nil {
		t.Fatalf("watch [%q, %q) from %d: %v", start, end, from, err)
	}
	t.Cleanup(w.Stop)
	return &watching{t: t, w: w, start: start, end: end, from: from}
}

// batch receives one batch. It returns false if the watch has ended.
func (w *watching) batch() (kv.Batch, bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	select {
	case b, ok := <-w.w.Batches():
		if ok {
			w.check(b)
		}
		return b, ok
	case <-ctx.Done():
		w.t.Fatalf("no batch within %s; the watch is at revision %d with %d events", timeout, w.delivered, len(w.events))
		return kv.Batch{}, false
	}
}

// check fails the test if events are duplicate, out of order or outside the requested range, or if the events
// of a revision are split across batches.
func (w *watching) check(b kv.Batch) {
	w.t.Helper()
	if b.Revision < w.delivered {
		w.t.Fatalf("batch with revision %d after one with %d", b.Revision, w.delivered)
	}
	last := w.delivered
	seen := map[string]kv.Revision{}
	for _, ev := range b.Events {
		switch {
		case ev.Revision < last, ev.Revision <= w.delivered:
			w.t.Fatalf("event of revision %d after all events of revision %d", ev.Revision, last)
		case ev.Revision > b.Revision:
			w.t.Fatalf("event of revision %d in a batch with revision %d", ev.Revision, b.Revision)
		case ev.Revision < w.from:
			w.t.Fatalf("event of revision %d in a watch from %d", ev.Revision, w.from)
		case ev.Key < w.start || w.end != "" && ev.Key >= w.end:
			w.t.Fatalf("event of key %q in a watch of [%q, %q)", ev.Key, w.start, w.end)
		case seen[ev.Key] == ev.Revision:
			w.t.Fatalf("two events of key %q at revision %d", ev.Key, ev.Revision)
		}
		seen[ev.Key] = ev.Revision
		last = ev.Revision
	}
	w.delivered = b.Revision
	w.events = append(w.events, b.Events...)
}

// until receives batches until the progress is at least rev, and returns all received events.
func (w *watching) until(rev kv.Revision) []kv.Event {
	w.t.Helper()
	for w.delivered < rev {
		if _, ok := w.batch(); !ok {
			w.t.Fatalf("the watch ended before revision %d: %v", rev, w.w.Err())
		}
	}
	return w.events
}

// ended receives batches until the watch ends, and returns its error.
func (w *watching) ended() error {
	w.t.Helper()
	for {
		if _, ok := w.batch(); !ok {
			return w.w.Err()
		}
	}
}

// plain returns the events without notes, because backends may drop notes.
func plain(events []kv.Event) []kv.Event {
	out := make([]kv.Event, len(events))
	for i, ev := range events {
		ev.Note = nil
		out[i] = ev
	}
	return out
}

// eventually waits until holds returns true. It fails the test after timeout.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; {
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within %s", what, timeout)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
