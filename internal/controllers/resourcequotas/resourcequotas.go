// Package resourcequotas computes the usage of quotas, like kube-controller-manager's
// resourcequota-controller: when a quota is new or its limits change, when an object was created or
// deleted without a charge, and periodically. All writes of this server are charged in the same
// transaction (package quota), so there is little work.
//
// The usage is exact: it is computed after reading the quota, and written only if the quota has not
// changed since, and every write of an object changes the quota.
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
	// Name is that of the controller, and account its service account.
	Name    = "resourcequota-controller"
	account = "resourcequota-controller"
	workers = 5
	// resync is how often everything is counted, as in kube-controller-manager.
	resync = 5 * time.Minute
	// settles is the maximum delay between the events of an object and of its charged quota: both
	// are written at once and delivered one after another.
	settles = 20 * time.Millisecond
)

// Config configures a Controller. All fields except Queues are required.
type Config struct {
	// Ledger has the quotas.
	Ledger *quota.Ledger
	// List lists objects.
	List quota.ListFunc
	// Resource finds a resource by where its objects are stored.
	Resource func(path string) (changes.Resource, bool)
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Controller is the controller.
type Controller struct {
	config   Config
	statuses *loopback.Client[*corev1.ResourceQuota]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		return New(Config{
			Ledger: d.Quotas, List: d.List, Resource: d.Objects.Resources.ByPath, Access: d.Access, Logger: d.Logger,
		}), nil
	}}
}

// New returns a controller that is not started.
func New(config Config) *Controller {
	quotas := loopback.For[*corev1.ResourceQuota](config.Access.AsController(account), corev1.SchemeGroupVersion.WithResource(quota.Resource().Resource))
	return &Controller{config: config, statuses: quotas.Subresource("status")}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	s := &subscriber{Controller: c, ctx: ctx}
	s.queue = work.New(ctx, work.Config[types.NamespacedName]{Name: Name, Workers: workers, Do: s.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return s, s.queue.Close
}

// subscriber enqueues new and changed quotas, and the quotas of namespaces with uncharged writes.
type subscriber struct {
	*Controller
	ctx   context.Context // of Start
	queue *work.Queue[types.NamespacedName]

	mu        sync.Mutex
	synced    bool
	charged   map[string]int64 // by namespace: the revision of the last write of a quota
	uncharged map[string]int64 // and of the last write that seems uncharged
}

// Reset implements changes.Subscriber.
func (s *subscriber) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced, s.charged, s.uncharged = false, map[string]int64{}, map[string]int64{}
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
		return // all quotas are counted anyway
	}
	resource, ok := s.config.Resource(c.Path)
	if !ok || !s.config.Ledger.Counts(c.Namespace, resource.GroupResource()) || !s.wasUncharged(resource, c) {
		return
	}
	s.suspect(c.Namespace, chargedAt(c))
}

// chargedAt returns the revision at which quotas are charged for a change. If the object is in
// another backend, quotas are charged before it, at a revision of their own: such a change is
// treated as uncharged.
func chargedAt(c *changes.Change) int64 {
	if c.SeparateStore {
		return math.MaxInt64
	}
	return c.Revision
}

// suspect has the quotas of a namespace counted unless one of them turns out to be
// charged at a revision.
func (s *subscriber) suspect(namespace string, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, already := s.uncharged[namespace]
	if last == 0 { // an earlier one stays: it has not been charged
		s.uncharged[namespace] = revision
	}
	if !already {
		time.AfterFunc(settles, func() { s.settle(namespace) })
	}
}

func (s *subscriber) settle(namespace string) {
	s.mu.Lock()
	revision, uncharged := s.uncharged[namespace]
	uncharged = uncharged && revision > 0
	delete(s.uncharged, namespace)
	s.mu.Unlock()
	if !uncharged {
		return
	}
	for _, q := range s.config.Ledger.Quotas(namespace) {
		s.queue.Add(types.NamespacedName{Namespace: namespace, Name: q.Name})
	}
}

func (s *subscriber) isSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// quotaChanged enqueues a quota at startup, and when its limits differ from its status.
func (s *subscriber) quotaChanged(c *changes.Change) {
	s.mu.Lock()
	s.charged[c.Namespace] = max(s.charged[c.Namespace], c.Revision)
	if s.uncharged[c.Namespace] == c.Revision {
		s.uncharged[c.Namespace] = 0 // it was charged after all
	}
	synced := s.synced
	s.mu.Unlock()
	if c.Value == nil {
		return
	}
	if synced && s.isCounted(c) {
		return
	}
	s.queue.Add(types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
}

// isCounted reports whether the usage was computed after the status was written.
func (s *subscriber) isCounted(c *changes.Change) bool {
	if q := s.config.Ledger.At(types.NamespacedName{Namespace: c.Namespace, Name: c.Name}, c.Revision); q != nil {
		return Counted(q)
	}
	resource, ok := s.config.Resource(c.Path)
	if !ok {
		return false
	}
	obj, err := resource.Kind.DecodeStored(c.Value, c.Revision)
	if err != nil {
		return false
	}
	q, ok := obj.(*corev1.ResourceQuota)
	return ok && Counted(q)
}

// Counted reports whether the usage was computed after the last change of the quota.
func Counted(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, ok := q.Status.Used[name]; !ok {
			return false
		}
	}
	return sameList(q.Spec.Hard, q.Status.Hard)
}

// decode returns the object of stored bytes, or nil for nil. The object is empty if its contents do
// not matter.
func (s *subscriber) decode(resource changes.Resource, value []byte, revision int64) (codec.Object, error) {
	switch {
	case value == nil:
		return nil, nil
	case !quota.DependsOnContents(resource.GroupResource()):
		return &metav1.PartialObjectMetadata{}, nil
	}
	return resource.Kind.DecodeStored(value, revision)
}

// wasUncharged reports whether a change seems not to have been charged although it should. The
// caller checks again later.
func (s *subscriber) wasUncharged(resource changes.Resource, c *changes.Change) bool {
	if s.isCharged(c.Namespace, chargedAt(c)) {
		return false
	}
	obj, err := s.decode(resource, c.Value, c.Revision)
	if err != nil {
		return false // and not counted, as it cannot be read
	}
	old, err := s.decode(resource, c.Prev, c.Revision)
	if err != nil {
		return true
	}
	return s.config.Ledger.IsUncharged(s.ctx, &quota.Write{Resource: resource.GroupResource(), Namespace: c.Namespace, Object: obj, Old: old})
}

func (s *subscriber) isCharged(namespace string, revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.charged[namespace] == revision
}

// sync computes the usage of a quota, and again after a delay.
func (s *subscriber) sync(ctx context.Context, name types.NamespacedName) error {
	err := s.Controller.Recount(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return work.Later(resync)
}

// Recount computes the usage of a quota. If other writers keep changing it, the writers of this
// server wait for the computation.
func (c *Controller) Recount(ctx context.Context, name types.NamespacedName) error {
	err := c.recount(ctx, name, patience)
	if !errors.Is(err, errBusy) {
		return err
	}
	unlock, err := c.config.Ledger.Lock(ctx, name.Namespace)
	if err != nil {
		return err
	}
	defer unlock()
	return c.recount(ctx, name, math.MaxInt)
}

// patience is how many counts that were out of date when they were to be written are
// tried again without a lock, which is not held lightly: the write may ask webhooks.
const patience = 3

var errBusy = errors.New("the quota keeps changing during the calculation")

// recount tries to compute the usage several times, until the quota has not changed during the
// computation.
func (c *Controller) recount(ctx context.Context, name types.NamespacedName, times int) error {
	_, err := c.statuses.Update(ctx, name, func(q *corev1.ResourceQuota) error {
		if times--; times < 0 {
			return errBusy
		}
		used, err := quota.Recount(ctx, q, c.config.List)
		if err != nil {
			return err
		}
		if sameList(q.Status.Hard, q.Spec.Hard) && sameList(q.Status.Used, used) {
			return nil
		}
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: used}
		return nil
	})
	return err
}

// sameList reports whether two lists have equal quantities, regardless of their format.
func sameList(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}
