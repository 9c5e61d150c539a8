package rest_test

import (
	"errors"
	"testing"

	"mainstay.dev/mainstay/internal/rest"
)

// TestReadPoint checks that reads with a common point query a store once, until a write.
func TestReadPoint(t *testing.T) {
	t.Parallel()
	newest := int64(0)
	ask := func() (int64, error) { newest++; return newest, nil }
	ctx := rest.WithReadPoint(t.Context())
	for _, step := range []struct {
		does  string
		first func()
		store any
		want  int64
	}{
		{"a first read", nil, "a", 1},
		{"another one", nil, "a", 1},
		{"one of another store", nil, "b", 2},
		{"one more of that", nil, "b", 2},
		{"after a failure", func() {
			if _, err := rest.ReadPointFrom(ctx).Revision("a", func() (int64, error) { return 9, errors.New("no quorum") }); err == nil {
				t.Error("a store that cannot be asked gives no error")
			}
		}, "a", 3},
		{"after Reset", func() { rest.ReadPointFrom(ctx).Reset() }, "a", 4},
		{"after a write", func() {
			if inside := rest.ReadPointFrom(rest.WithoutReadPoint(ctx)); inside != nil {
				t.Errorf("a write has a point: %v", inside)
			}
		}, "a", 5},
	} {
		if step.first != nil {
			step.first()
		}
		if got, err := rest.ReadPointFrom(ctx).Revision(step.store, ask); err != nil || got != step.want {
			t.Errorf("%s: revision %d, %v; want %d", step.does, got, err, step.want)
		}
	}
	for range 2 {
		if got, _ := rest.ReadPointFrom(t.Context()).Revision("a", ask); got != newest {
			t.Errorf("a read without a point: %d, not %d", got, newest)
		}
	}
	if plain := t.Context(); rest.WithoutReadPoint(plain) != plain {
		t.Error("a context without a point is another one without it")
	}
}
