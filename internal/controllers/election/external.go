package election

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controllers/changes"
)

// ExternalManager observes, by its lease, whether a kube-controller-manager is running. The fields must not be
// modified after Start has been called. Start must be called only once.
type ExternalManager struct {
	// LeaseName is the name of the manager's lease in kube-system.
	LeaseName string
	// LeaseExpiry returns the expiration time of the stored lease, or a time in the past if the lease has no
	// holder.
	LeaseExpiry func(ctx context.Context) time.Time
	// Changed is called when the kube-controller-manager starts or stops. It must not block.
	Changed func()

	mu struct {
		sync.Mutex
		running bool
		ends    *time.Timer // fires when the lease expires
	}
}

// Start reports whether a kube-controller-manager is running, and observes its lease until ctx ends. The caller
// must pass all changes to leases to the subscriber.
func (e *ExternalManager) Start(ctx context.Context) (running bool, subscriber changes.Subscriber) {
	until := e.LeaseExpiry(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.running = time.Now().Before(until)
	if e.mu.running {
		e.scheduleCheckLocked(ctx, until)
	}
	return e.mu.running, &externalSubscriber{ctx, e}
}

// scheduleCheckLocked schedules a check at the time at which the lease expires if it is not renewed.
func (e *ExternalManager) scheduleCheckLocked(ctx context.Context, until time.Time) {
	if e.mu.ends != nil {
		e.mu.ends.Stop()
	}
	e.mu.ends = time.AfterFunc(time.Until(until), func() { e.check(ctx) })
}

// check reads the lease, and calls Changed if the state differs from the last known state.
func (e *ExternalManager) check(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	until := e.LeaseExpiry(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if running := time.Now().Before(until); running != e.mu.running {
		e.mu.running = running
		e.Changed()
		return
	}
	if e.mu.running {
		e.scheduleCheckLocked(ctx, until)
	}
}

type externalSubscriber struct {
	ctx     context.Context
	manager *ExternalManager
}

func (*externalSubscriber) Reset()  {}
func (*externalSubscriber) Synced() {}

// Changed checks the lease after it has been written or deleted.
func (s *externalSubscriber) Changed(c *changes.Change) {
	if c.Path == "leases" && c.Name == s.manager.LeaseName && c.Namespace == metav1.NamespaceSystem {
		s.manager.check(s.ctx)
	}
}
