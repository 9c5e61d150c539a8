// Package resourcequotas computes the usage of quotas, like kube-controller-manager's resourcequota-controller.
// It computes the usage of a quota when the quota is created, when its limits change, after writes without a
// charge, and periodically. All writes of this server are charged in their own transaction (package quota), so
// there is little to compute.
//
// The computed usage is exact, because it is computed after the quota was read, and is written only if the
// quota has not changed since. Every write of a counted object changes the quota.
package resourcequotas

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/registry/quota"
)

const (
	// Name is the name of the controller. account is the name of its service account.
	Name    = "resourcequota-controller"
	account = "resourcequota-controller"
	workers = 5
	// resyncPeriod is the interval at which the usage of each quota is computed again, as in
	// kube-controller-manager.
	resyncPeriod = 5 * time.Minute
	// chargeDelay is the maximum delay between the feed's reports of an object and of the quota that is charged
	// for it. Both are written in one transaction and reported one after the other.
	chargeDelay = 20 * time.Millisecond
)

// Config configures a Controller. All fields except QueueMetrics are required.
type Config struct {
	// Ledger contains the quotas and their charges.
	Ledger *quota.Ledger
	// List lists the current objects of a resource.
	List quota.ListFunc
	// FindResource returns the resource with the given storage path, or false if there is none.
	FindResource func(path string) (changes.Resource, bool)
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller implements resourcequota-controller. It starts no goroutine before Start. Recount is
// safe for concurrent use.
type Controller struct {
	config   Config
	statuses *loopback.Client[*corev1.ResourceQuota]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		return New(Config{
			Ledger: d.Quotas, List: d.List, FindResource: d.Objects.Resources.ByPath, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics,
		}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Controller {
	quotas := loopback.For[*corev1.ResourceQuota](config.Access.AsController(account), corev1.SchemeGroupVersion.WithResource(quota.Resource().Resource))
	return &Controller{config: config, statuses: quotas.Subresource("status")}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	s := &subscriber{Controller: c, ctx: ctx}
	s.queue = work.New(ctx, work.Config[types.NamespacedName]{Name: Name, Workers: workers, Sync: s.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return s, s.queue.Close
}

// subscriber enqueues new and changed quotas, and the quotas of namespaces with uncharged writes.
type subscriber struct {
	*Controller
	ctx   context.Context // the context of Start
	queue *work.Queue[types.NamespacedName]

	mu      sync.Mutex
	synced  bool
	charged map[types.NamespacedName]int64 // revision of the last write of each quota
	// waiting contains the quotas for which recountUncharged is scheduled, with the revision of the first write
	// for which the quota does not seem to be charged, or 0 if the charge was reported in the meantime.
	waiting map[types.NamespacedName]int64
}

// Reset implements changes.Subscriber.
func (s *subscriber) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.charged, s.waiting = false, map[types.NamespacedName]int64{}, map[types.NamespacedName]int64{}
}

// Synced implements changes.Subscriber.
func (s *subscriber) Synced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == quota.Resource().Resource {
		s.quotaChanged(c)
	}
	if c.Namespace == "" || !s.isSynced() {
		return // all quotas are computed after the start
	}
	resource, ok := s.config.FindResource(c.Path)
	if !ok || !s.config.Ledger.Counts(c.Namespace, resource.GroupResource()) {
		return
	}
	revision, quotas := s.uncharged(resource, c)
	for _, name := range quotas {
		s.recountLater(name, revision)
	}
}

// unknownRevision is the revision of a charge that cannot be recognized. It matches no revision.
const unknownRevision = math.MaxInt64

// chargeRevision returns the revision at which quotas are charged for a change. An object in a separate store
// is charged before it is written, at an unknown revision of the main store, so the change is treated as
// uncharged.
func chargeRevision(c *changes.Change) int64 {
	if c.SeparateStore {
		return unknownRevision
	}
	return c.Revision
}

// recountLater enqueues a quota after chargeDelay, unless the quota is charged at the given revision in the
// meantime.
func (s *subscriber) recountLater(name types.NamespacedName, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, already := s.waiting[name]
	if last == 0 || revision == unknownRevision { // otherwise, an earlier revision is still uncharged; keep it
		s.waiting[name] = revision
	}
	if !already {
		time.AfterFunc(chargeDelay, func() { s.recountUncharged(name) })
	}
}

// recountUncharged enqueues a quota if the write recorded in s.waiting has not been charged.
func (s *subscriber) recountUncharged(name types.NamespacedName) {
	s.mu.Lock()
	revision := s.waiting[name]
	delete(s.waiting, name)
	s.mu.Unlock()
	if revision > 0 {
		s.queue.Add(name)
	}
}

func (s *subscriber) isSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// quotaChanged enqueues a quota at startup, and later whenever its status is not up to date.
func (s *subscriber) quotaChanged(c *changes.Change) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	s.mu.Lock()
	if c.Value == nil {
		delete(s.charged, name)
	} else {
		s.charged[name] = c.Revision
	}
	if s.waiting[name] == c.Revision {
		s.waiting[name] = 0 // charged
	}
	synced := s.synced
	s.mu.Unlock()
	if c.Value == nil || synced && s.isUpToDate(c) {
		return
	}
	s.queue.Add(name)
}

// isUpToDate reports whether the status of a changed quota is up to date.
func (s *subscriber) isUpToDate(c *changes.Change) bool {
	if q := s.config.Ledger.QuotaAt(types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, c.Revision); q != nil {
		return IsUpToDate(q)
	}
	resource, ok := s.config.FindResource(c.Path)
	if !ok {
		return false
	}
	obj, err := resource.Kind.DecodeStored(c.Value, c.Revision)
	if err != nil {
		return false
	}
	q, ok := obj.(*corev1.ResourceQuota)
	return ok && IsUpToDate(q)
}

// IsUpToDate reports whether the status of a quota contains the current limits and the usage of each resource
// that they limit.
func IsUpToDate(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, ok := q.Status.Used[name]; !ok {
			return false
		}
	}
	return equalQuantities(q.Spec.Hard, q.Status.Hard)
}

// decode decodes a stored object. It returns nil if value is nil. If quotas do not depend on the contents of
// the resource's objects, it returns an empty object.
func (s *subscriber) decode(resource changes.Resource, value []byte, revision int64) (codec.Object, error) {
	switch {
	case value == nil:
		return nil, nil
	case !quota.DependsOnContents(resource.GroupResource()):
		return &metav1.PartialObjectMetadata{}, nil
	}
	return resource.Kind.DecodeStored(value, revision)
}

// uncharged returns the quotas that count a change but for which the feed has not reported the charge. The feed
// may report the charge later, at the returned revision.
func (s *subscriber) uncharged(resource changes.Resource, c *changes.Change) (revision int64, names []types.NamespacedName) {
	revision = chargeRevision(c)
	all := s.config.Ledger.Quotas(c.Namespace)
	uncharged := s.withoutCharge(all, revision)
	if len(uncharged) == 0 && c.Value != nil {
		return revision, nil
	}
	obj, err := s.decode(resource, c.Value, c.Revision)
	if err != nil {
		return revision, nil // quotas do not count undecodable objects
	}
	old, err := s.decode(resource, c.Prev, c.Revision)
	switch {
	case err != nil:
	case c.Value == nil && quota.IsOverduePod(s.ctx, old):
		// The charge for the deletion does not include the usage that ended with the pod's deadline.
		revision, uncharged = unknownRevision, all
	default:
		uncharged = quota.Affected(s.ctx, &quota.Write{Resource: resource.GroupResource(), Namespace: c.Namespace, Object: obj, Old: old}, uncharged)
	}
	for _, q := range uncharged {
		names = append(names, types.NamespacedName{Namespace: c.Namespace, Name: q.Name})
	}
	return revision, names
}

// withoutCharge returns the quotas that were not written at a revision.
func (s *subscriber) withoutCharge(quotas []*corev1.ResourceQuota, revision int64) []*corev1.ResourceQuota {
	s.mu.Lock()
	defer s.mu.Unlock()
	var without []*corev1.ResourceQuota
	for _, q := range quotas {
		if s.charged[types.NamespacedName{Namespace: q.Namespace, Name: q.Name}] != revision {
			without = append(without, q)
		}
	}
	return without
}

// sync computes the usage of a quota, and schedules the next computation.
func (s *subscriber) sync(ctx context.Context, name types.NamespacedName) error {
	err := s.Controller.Recount(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return work.RequeueAfter(resyncPeriod)
}

// Recount computes the usage of a quota and stores it. If the quota changes during each of maxAttempts
// attempts, Recount locks the namespace, so that writes of counted objects in this server wait. It returns a
// NotFound error if the quota does not exist.
func (c *Controller) Recount(ctx context.Context, name types.NamespacedName) error {
	err := c.recount(ctx, name, maxAttempts)
	if !errors.Is(err, errQuotaChanged) {
		return err
	}
	unlock, err := c.config.Ledger.Lock(ctx, name.Namespace)
	if err != nil {
		return err
	}
	defer unlock()
	return c.recount(ctx, name, math.MaxInt)
}

// maxAttempts is the number of attempts without the lock. The lock is a last resort, because the write of the
// quota may call webhooks.
const maxAttempts = 3

var errQuotaChanged = errors.New("the quota keeps changing during the calculation")

// recount computes and writes the usage of a quota. It returns errQuotaChanged if the quota changed during each
// of times attempts.
func (c *Controller) recount(ctx context.Context, name types.NamespacedName, times int) error {
	_, err := c.statuses.Update(ctx, name, func(q *corev1.ResourceQuota) error {
		if times--; times < 0 {
			return errQuotaChanged
		}
		used, err := quota.Recount(ctx, q, c.config.List)
		if err != nil {
			return err
		}
		if equalQuantities(q.Status.Hard, q.Spec.Hard) && equalQuantities(q.Status.Used, used) {
			return nil
		}
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
		return nil
	})
	return err
}

// equalQuantities reports whether two lists contain equal quantities. The formats of the quantities may differ.
func equalQuantities(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}
