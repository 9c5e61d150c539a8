package clusterroles

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// brokenStorage is a storage without roles, whose lists fail with err.
type brokenStorage struct {
	storage.Interface
	err error
}

func (s brokenStorage) List(context.Context, string, rest.ListOptions) (*rest.List, error) {
	return &rest.List{Items: func(yield func(*codec.Record, error) bool) { yield(nil, s.err) }}, nil
}

func (brokenStorage) Get(context.Context, types.NamespacedName, storage.ReadOptions) (*codec.Record, error) {
	return nil, storage.ErrNotFound
}

// TestFailedRead checks that each change of a role is relevant after a failed read of the roles. The change then
// causes another read before the delay of the retry ends.
func TestFailedRead(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	a := &Aggregator{storage: brokenStorage{err: failed}, members: map[string]bool{}}
	if err := a.Aggregate(t.Context()); !errors.Is(err, failed) {
		t.Errorf("aggregate: %v", err)
	}
	if relevant, err := a.isRelevant(t.Context(), "a"); !relevant || err != nil {
		t.Errorf("a change after a failed read is relevant: %t, %v", relevant, err)
	}
}
