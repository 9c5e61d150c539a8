package fleet

import (
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/request"
)

// TestTooManyWait checks the error of a request that cannot wait for other requests, with and without a limit
// in the ControlPlane object.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limits    controlplanes.Limits
		seats     int64
		want, not string
	}{
		{controlplanes.Limits{ConcurrentRequests: 3}, 3, "spec.limits.concurrentRequests=3", "default"},
		{controlplanes.Limits{}, defaultConcurrentRequests(), strconv.FormatInt(defaultConcurrentRequests(), 10) + " requests, the default limit", "spec.limits.concurrentRequests="},
	} {
		l := newLimiter()
		l.set(&tt.limits)
		ctx := request.NewContext(t.Context(), &request.Info{Verb: "get"}, time.Time{})
		for range tt.seats {
			release, err := l.admit(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
		}
		l.waiting.Store(tt.seats * waitingPerSeat)
		_, err := l.admit(ctx)
		if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), tt.not) {
			t.Errorf("limits %+v: %v, want %q", tt.limits, err, tt.want)
		}
	}
}
