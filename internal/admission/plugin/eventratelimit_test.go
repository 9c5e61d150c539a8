package plugin_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/request"
)

// eventOf returns a request by a user that creates an event about an object.
func eventOf(namespace, user, object string) *admission.Attributes {
	a := creating(resource("", "events", ""), &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: object}, Source: corev1.EventSource{Component: "k"}})
	a.Namespace, a.User = namespace, &request.User{Name: user}
	return a
}

func limited(limits ...config.EventLimit) plugin.EventRateLimit {
	return plugin.NewEventRateLimit(config.EventRateLimit{Limits: limits})
}

// TestEventRateLimit checks that each key has its own bucket, and that buckets are refilled over time.
func TestEventRateLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit       config.EventLimitType
		other, same *admission.Attributes
		refusal     string
	}{
		{config.LimitServer, nil, eventOf("b", "v", "p"), "Too many requests: limit reached on type Server for key "},
		{config.LimitNamespace, eventOf("b", "u", "o"), eventOf("a", "v", "p"), "Too many requests: limit reached on type Namespace for key a"},
		{config.LimitUser, eventOf("a", "v", "o"), eventOf("b", "u", "p"), "Too many requests: limit reached on type User for key u"},
		{config.LimitSourceAndObject, eventOf("a", "u", "p"), eventOf("b", "v", "o"), "Too many requests: limit reached on type SourceAndObject for key ko"},
	} {
		t.Run(string(tt.limit), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := limited(config.EventLimit{Type: tt.limit, QPS: 2, Burst: 3})
				pass := func(a *admission.Attributes) error { return p.Validate(t.Context(), a) }
				for range 3 {
					if err := pass(eventOf("a", "u", "o")); err != nil {
						t.Fatal(err)
					}
				}
				if err := pass(tt.same); !apierrors.IsTooManyRequests(err) || err.Error() != tt.refusal {
					t.Errorf("beyond the burst: %v", err)
				}
				if tt.other != nil && pass(tt.other) != nil {
					t.Error("another key is limited")
				}
				time.Sleep(time.Second)
				passed := 0
				for range 4 {
					if pass(tt.same) == nil {
						passed++
					}
				}
				if passed != 2 {
					t.Errorf("%d events were admitted after a second", passed)
				}
			})
		})
	}
}

// TestEventRateLimitEviction checks that the least recently used keys are evicted.
func TestEventRateLimitEviction(t *testing.T) {
	t.Parallel()
	p := limited(config.EventLimit{Type: config.LimitNamespace, QPS: 1, Burst: 1, CacheSize: 10})
	for i := range 20 {
		if err := p.Validate(t.Context(), eventOf(fmt.Sprint(i), "u", "o")); err != nil {
			t.Error(err)
		}
	}
	if p.Validate(t.Context(), eventOf("0", "u", "o")) != nil || p.Validate(t.Context(), eventOf("19", "u", "o")) == nil {
		t.Error("the bucket of the oldest key was not evicted, or the bucket of the newest key was")
	}
}

// TestEventRateLimitOfOthers checks that other kinds and dry runs are not limited, and that two equal limits
// count separately.
func TestEventRateLimitOfOthers(t *testing.T) {
	t.Parallel()
	p := limited(config.EventLimit{Type: config.LimitServer, QPS: 1, Burst: 1}, config.EventLimit{Type: config.LimitUser, QPS: 1, Burst: 1})
	for range 3 {
		if p.Validate(t.Context(), creating(pods(), podNamed("x"))) != nil || p.Validate(t.Context(), creating(resource("events.k8s.io", "events", ""), &eventsv1.Event{})) != nil {
			t.Error("an object that is not an event of the core group was limited")
		}
	}
	dryRun := eventOf("a", "u", "o")
	dryRun.DryRun = true
	for range 3 {
		validated(t, p, dryRun, "")
	}
	validated(t, p, eventOf("a", "u", "o"), "")
	validated(t, p, dryRun, "")
	if err := p.Validate(t.Context(), eventOf("a", "u", "o")); err == nil || err.Error() != "Too many requests: limit reached on type User for key u" {
		t.Errorf("error %v; want the error of the last exceeded limit", err)
	}
}
