package storage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// failingReader is a WatchReader with an empty list, and with an error instead of changes.
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
