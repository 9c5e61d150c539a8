package request

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Limits of what a request's audit annotations hold. Their values may come from
// clients (names, what a policy makes of an object), and a watch keeps them for
// as long as it lasts.
const (
	maxAuditAnnotations     = 256
	maxAuditAnnotationBytes = 64 << 10
)

// Errors of Annotate.
var (
	// ErrAnnotated is returned for a key that has another value.
	ErrAnnotated = errors.New("the audit annotation has another value")
	// ErrAnnotationsFull is returned when a request has as many audit annotations
	// as it may have.
	ErrAnnotationsFull = errors.New("too many audit annotations")
)

// annotations are what is to be said of a request in its audit event. The zero
// value is ready, and holds nothing but a lock.
type annotations struct {
	mu struct {
		sync.Mutex
		values map[string]string
		bytes  int
	}
}

// Annotate adds an annotation to the request's audit event. A key keeps its first
// value: another one is ErrAnnotated, the same again does nothing. What exceeds
// the limits of a request is ErrAnnotationsFull and not kept. It is safe for
// concurrent use; outside a request it does nothing.
func Annotate(ctx context.Context, key, value string) error {
	s := from(ctx)
	if s == nil {
		return nil
	}
	a := &s.annotations
	a.mu.Lock()
	defer a.mu.Unlock()
	if there, ok := a.mu.values[key]; ok {
		if there != value {
			return fmt.Errorf("annotate %s with %q: %w: %q", key, value, ErrAnnotated, there)
		}
		return nil
	}
	size := len(key) + len(value)
	if len(a.mu.values) >= maxAuditAnnotations || a.mu.bytes+size > maxAuditAnnotationBytes {
		return fmt.Errorf("annotate %s: %w", key, ErrAnnotationsFull)
	}
	if a.mu.values == nil {
		a.mu.values = make(map[string]string)
	}
	a.mu.values[key] = value
	a.mu.bytes += size
	return nil
}

// AnnotationsFrom returns the audit annotations of a request; nil where there are
// none. The caller owns the map.
func AnnotationsFrom(ctx context.Context) map[string]string {
	s := from(ctx)
	if s == nil {
		return nil
	}
	s.annotations.mu.Lock()
	defer s.annotations.mu.Unlock()
	return maps.Clone(s.annotations.mu.values)
}
