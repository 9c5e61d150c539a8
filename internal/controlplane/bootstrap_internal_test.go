package controlplane

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// TestUnavailable checks the errors after which a control plane starts, and creates its default objects later.
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
