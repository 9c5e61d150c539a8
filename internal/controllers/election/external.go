package election

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// External watches whether a kube-controller-manager runs.
type External struct {
	// Name of its lease in kube-system.
	Name string
	// Holds returns the expiration time of the stored lease, or a past time if it is not held.
	Holds func(ctx context.Context) time.Time
	// Changed is called, once, when it turns out to run or not to run any more.
	Changed func()

	mu struct {
		sync.Mutex
		running bool
		ends    *time.Timer // when the lease does
	}
}

// Start reports whether it runs, and starts to watch its lease until ctx ends. The caller must pass
// the changes of leases to the subscriber.
func (e *External) Start(ctx context.Context) (running bool, subscriber changes.Subscriber) {
	until := e.Holds(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.running = time.Now().Before(until)
	if e.mu.running {
		e.expectLocked(ctx, until)
	}
	return e.mu.running, &externalSubscriber{ctx, e}
}

// expectLocked looks again when the lease should have been renewed.
func (e *External) expectLocked(ctx context.Context, until time.Time) {
	if e.mu.ends != nil {
		e.mu.ends.Stop()
	}
	e.mu.ends = time.AfterFunc(time.Until(until), func() { e.look(ctx) })
}

// look compares the lease with its last known state.
func (e *External) look(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	until := e.Holds(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if running := time.Now().Before(until); running != e.mu.running {
		e.mu.running = running
		e.Changed()
		return
	}
	if e.mu.running {
		e.expectLocked(ctx, until)
	}
}

type externalSubscriber struct {
	ctx context.Context
	of  *External
}

func (*externalSubscriber) Reset()  {}
func (*externalSubscriber) Synced() {}

// Changed looks at the lease when it is written.
func (s *externalSubscriber) Changed(c *changes.Change) {
	if c.Path == "leases" && c.Name == s.of.Name && c.Namespace == metav1.NamespaceSystem {
		s.of.look(s.ctx)
	}
}
