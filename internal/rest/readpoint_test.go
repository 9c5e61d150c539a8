package rest_test

import (
	"errors"
	"testing"

	"mainstay.dev/mainstay/internal/rest"
)

// TestReadPoint checks that reads with the same ReadPoint query a store only once, until a write.
func TestReadPoint(t *testing.T) {
	t.Parallel()
	newest := int64(0)
	next := func() (int64, error) { newest++; return newest, nil }
	ctx := rest.WithReadPoint(t.Context())
	for _, step := range []struct {
		does  string
		first func()
		store any
		want  int64
	}{
		{"a first read", nil, "a", 1},
		{"a second read", nil, "a", 1},
		{"a read of another store", nil, "b", 2},
		{"a second read of the other store", nil, "b", 2},
		{"after a failure", func() {
			if _, err := rest.ReadPointFrom(ctx).Revision("a", func() (int64, error) { return 9, errors.New("no quorum") }); err == nil {
				t.Error("Revision returned no error, although the query of the store failed")
			}
		}, "a", 3},
		{"after Reset", func() { rest.ReadPointFrom(ctx).Reset() }, "a", 4},
		{"after a write", func() {
			if inside := rest.ReadPointFrom(rest.WithoutReadPoint(ctx)); inside != nil {
				t.Errorf("WithoutReadPoint returned a context with a ReadPoint: %v", inside)
			}
		}, "a", 5},
	} {
		if step.first != nil {
			step.first()
		}
		if got, err := rest.ReadPointFrom(ctx).Revision(step.store, next); err != nil || got != step.want {
			t.Errorf("%s: revision %d, %v; want %d", step.does, got, err, step.want)
		}
	}
	for range 2 {
		if got, _ := rest.ReadPointFrom(t.Context()).Revision("a", next); got != newest {
			t.Errorf("a read without a ReadPoint: revision %d, want %d", got, newest)
		}
	}
	if plain := t.Context(); rest.WithoutReadPoint(plain) != plain {
		t.Error("WithoutReadPoint returned another context for a context without a ReadPoint")
	}
}
