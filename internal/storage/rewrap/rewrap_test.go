package rewrap

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// TestPurgeError checks that an error of purge names its cause only.
func TestPurgeError(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		cause  error // nil if the key is missing
		others bool  // the error states that another program uses the store
	}{
		"canceled": {canceled, context.Canceled, false},
		"missing":  {t.Context(), nil, true},
	} {
		w := rewriter{store: storagetest.InMemory(t), lastKey: "/registry/secrets/a/b"}
		err := w.purge(test.ctx)
		if err == nil || test.cause != nil && !errors.Is(err, test.cause) || strings.Contains(err.Error(), "another program") != test.others {
			t.Errorf("%s: %v", name, err)
		}
	}
}
