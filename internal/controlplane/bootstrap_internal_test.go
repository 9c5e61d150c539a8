package controlplane

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestUnavailable checks which errors do not prevent the start of a control plane, because it can create its
// default objects later.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		fmt.Errorf("write: %w", kv.ErrUnavailable):                             true,
		fmt.Errorf("sync: %w", apierrors.NewServiceUnavailable("an election")): true,
		apierrors.NewInternalError(errors.New("x")):                            false,
		kv.ErrCorrupt: false,
	} {
		if got := isUnavailable(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

// TestLoadAvailable checks that a load is retried only while the store is unavailable.
func TestLoadAvailable(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		errs []error // the results of successive calls
		want error
	}{
		"success":     {[]error{nil}, nil},
		"an election": {[]error{kv.ErrUnavailable, fmt.Errorf("list: %w", kv.ErrUnavailable), nil}, nil},
		"other error": {[]error{broken, nil}, broken},
	} {
		calls := 0
		c := component{load: func(context.Context) error { calls++; return tt.errs[calls-1] }}
		if err := c.loadAvailable(t.Context()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := component{load: func(context.Context) error { cancel(); return kv.ErrUnavailable }}
	if err := c.loadAvailable(ctx); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("load with a canceled context: %v", err)
	}
}
