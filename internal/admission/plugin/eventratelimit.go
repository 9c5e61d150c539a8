package plugin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/config"
)

// EventRateLimit limits the rate at which events are written: in total, per namespace, per user, or per source
// and object.
type EventRateLimit struct {
	onCreateOrUpdate
	limits []*eventLimit
}

var _ admission.Validator = EventRateLimit{}

func eventRateLimitPlugin() Registration {
	return Registration{
		Name: EventRateLimit{}.Name(), Description: "limits the rate of written events",
		RequiresConfig: true,
		New:            func(d Dependencies) admission.Plugin { return NewEventRateLimit(d.Config.EventRateLimit) },
	}
}

// NewEventRateLimit returns the plugin with the configured limits. All token buckets are full at first.
func NewEventRateLimit(c config.EventRateLimit) EventRateLimit {
	var p EventRateLimit
	for _, limit := range c.Limits {
		p.limits = append(p.limits, newEventLimit(limit))
	}
	return p
}

// Name implements admission.Plugin.
func (EventRateLimit) Name() string { return "EventRateLimit" }

// Validate implements admission.Validator. Each event counts toward all limits; if several are exceeded,
// Validate returns the error of the last one. As in kube-apiserver, events of events.k8s.io and dry runs are not
// limited.
func (p EventRateLimit) Validate(_ context.Context, a *admission.Attributes) error {
	event := objectOf[corev1.Event](a, "", "events")
	if event == nil || a.DryRun {
		return nil
	}
	var err error
	for _, limit := range p.limits {
		if key := limit.keyOf(a, event); !limit.take(key, time.Now()) {
			err = apierrors.NewTooManyRequestsError(fmt.Sprintf("limit reached on type %v for key %v", limit.config.Type, key))
		}
	}
	return err
}

// eventLimit limits the rate of events per key with token buckets. If the cache is full, it evicts the least
// recently used bucket. It is safe for concurrent use.
type eventLimit struct {
	config config.EventLimit
	mu     struct {
		sync.Mutex
		buckets *lru.Cache // of *eventBucket
	}
}

// eventBucket is the token bucket of a key. at is the time when tokens was last updated.
type eventBucket struct {
	tokens float64
	at     time.Time
}

func newEventLimit(c config.EventLimit) *eventLimit {
	size := int(c.CacheSize)
	if size == 0 {
		size = config.DefaultEventCacheSize
	}
	l := &eventLimit{config: c}
	l.mu.buckets = lru.New(size)
	return l
}

// keyOf returns the key of an event.
func (l *eventLimit) keyOf(a *admission.Attributes, event *corev1.Event) string {
	switch l.config.Type {
	case config.LimitNamespace:
		return a.Namespace
	case config.LimitUser:
		if a.User != nil {
			return a.User.Name
		}
	case config.LimitSourceAndObject:
		o := &event.InvolvedObject
		return strings.Join([]string{event.Source.Component, event.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion}, "")
	}
	return ""
}

// take removes a token from the bucket of a key. It reports whether the bucket contained a token.
func (l *eventLimit) take(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := &eventBucket{tokens: float64(l.config.Burst), at: now}
	if known, ok := l.mu.buckets.Get(key); ok {
		bucket = known.(*eventBucket)
	} else {
		l.mu.buckets.Add(key, bucket)
	}
	if passed := now.Sub(bucket.at); passed > 0 {
		bucket.tokens = min(float64(l.config.Burst), bucket.tokens+passed.Seconds()*float64(l.config.QPS))
		bucket.at = now
	}
	if bucket.tokens < 1 {
		return false
	}
	bucket.tokens--
	return true
}
