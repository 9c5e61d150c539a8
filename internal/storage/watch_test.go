package storage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// failingReader is a WatchReader whose list is empty and whose Changes returns err.
type failingReader struct {
	storage.WatchReader
	err error
}

func (r failingReader) ListPlanned(context.Context, *storage.ListPlan) (*rest.List, error) {
	return &rest.List{Revision: 7, Items: func(func(*codec.Record, error) bool) {}}, nil
}

func (r failingReader) Changes(context.Context, *storage.Selection, kv.Revision) (storage.ChangeStream, error) {
	return nil, r.err
}

// TestFailedOpenWatch checks that no goroutine remains if a watch with initial objects cannot be opened.
func TestFailedOpenWatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		inNext bool // the error is returned by Next
	}{
		"unavailable": {kv.ErrUnavailable, false},
		"canceled":    {context.Canceled, false},
		"expired":     {storage.TooOld(7, 9), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // fails if a goroutine remains
				w, err := storage.OpenWatch(t.Context(), failingReader{err: test.err}, &storage.WatchPlan{Initial: true})
				if test.inNext {
					if err != nil {
						t.Fatal(err)
					}
					_, err = w.Next(t.Context())
				}
				if !errors.Is(err, test.err) {
					t.Errorf("got %v, want %v", err, test.err)
				}
			})
		})
	}
}

// TestUnreadableEvent checks that a watch returns no part of a commit with an unreadable event, so that a
// client that resumes the watch receives the whole commit once the event is readable.
func TestUnreadableEvent(t *testing.T) {
	t.Parallel()
	const readable, unreadable = `{"apiVersion":"v1","kind":"Pod"}`, "k8s:enc:x"
	for name, values := range map[string][]string{
		"only":   {unreadable},
		"first":  {unreadable, readable},
		"middle": {readable, unreadable, readable},
		"last":   {readable, readable, unreadable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := storagetest.InMemory(t)
			store := storagetest.Pods(t, backend)
			sel, err := store.Select("", rest.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			from, err := backend.CurrentRevision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var last kv.Revision
			for _, commit := range [][]string{{readable, readable}, values} {
				var ops []kv.Op
				for i, value := range commit {
					ops = append(ops, kv.Op{Key: fmt.Sprintf("%sa/%d", store.Prefix(), i), Value: []byte(value), Expect: kv.AnyRevision})
				}
				res, err := backend.Commit(t.Context(), ops...)
				if err != nil {
					t.Fatal(err)
				}
				last = res.Revision
			}
			stream, err := store.Changes(t.Context(), &sel, from)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			var revisions []int64
			var progress int64
			for err == nil {
				var changes []*storage.Change
				changes, progress, err = stream.Next(t.Context(), nil, nil)
				for _, change := range changes {
					revisions = append(revisions, change.Revision)
				}
			}
			if before := int64(last) - 1; progress != before || !slices.Equal(revisions, []int64{before, before}) {
				t.Errorf("changes at revisions %v with progress %d, want two changes at revision %d", revisions, progress, before)
			}
			if !errors.As(err, new(*storage.CorruptError)) {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
}

// withoutProgress is a backend that cannot report its current revision, like etcd during an election.
type withoutProgress struct{ kv.Backend }

func (withoutProgress) CurrentRevision(context.Context) (kv.Revision, error) {
	return 0, kv.ErrUnavailable
}

// TestBookmarkDuringOutage checks that a watch continues if the backend is unavailable when a bookmark is due.
func TestBookmarkDuringOutage(t *testing.T) {
	t.Parallel()
	backend := storagetest.InMemory(t)
	store := storagetest.Pods(t, withoutProgress{backend})
	sel, err := store.Select("", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := store.Changes(t.Context(), &sel, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	due := make(chan time.Time, 1)
	due <- time.Time{}
	if changes, progress, err := stream.Next(t.Context(), due, nil); err != nil || len(changes) > 0 || progress != 5 {
		t.Errorf("%d changes, progress %d, %v", len(changes), progress, err)
	}
}
