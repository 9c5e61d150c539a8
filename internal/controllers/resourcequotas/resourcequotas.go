// Package resourcequotas counts what the quotas of a namespace limit, as
// kube-controller-manager's resourcequota-controller does: when a quota is new or limits
// something else, when an object came or went that was not charged, and now and then.
// Everything that this server writes is charged with its own write (package quota), so
// that there is little to do.
//
// A count is exact: it is taken after the quota was read and written onto the quota that
// was read, and whoever writes an object meanwhile changes that.
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
	// settles is how long what a quota is charged may arrive after what it is charged
	// for: both are written at once, and told one after the other.
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
	// Queues are the metrics of the work queue; nil: none.
	Queues *work.Metrics
}

// Controller is the controller.
type Controller struct {
	config   Config
	statuses *loopback.Client[*corev1.ResourceQuota]
}

// New returns a controller that has not begun.
func New(config Config) *Controller {
	quotas := loopback.For[*corev1.ResourceQuota](config.Access.AsController(account), corev1.SchemeGroupVersion.WithResource(quota.Resource().Resource))
	return &Controller{config: config, statuses: quotas.Subresource("status")}
}

// Begin returns the subscriber that does the work until ctx ends, and what waits for its
// end.
func (c *Controller) Begin(ctx context.Context) (changes.Subscriber, func()) {
	s := &subscriber{Controller: c, ctx: ctx}
	s.queue = work.New(ctx, work.Config[types.NamespacedName]{Name: Name, Workers: workers, Do: s.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return s, s.queue.Close
}

// subscriber queues quotas that are new or changed, and those of namespaces in which
// something was not charged.
type subscriber struct {
	*Controller
	ctx   context.Context // of Begin
	queue *work.Queue[types.NamespacedName]

	mu        sync.Mutex
	synced    bool
	charged   map[string]int64 // by namespace: the revision of the last write of a quota
	uncharged map[string]int64 // and of the last write that none seems to be charged for
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
	if !ok || !s.config.Ledger.Concerns(c.Namespace, resource.GroupResource()) || !s.wasUncharged(resource, c) {
		return
	}
	s.suspect(c.Namespace, chargedAt(c))
}

// chargedAt returns the revision at which quotas are charged what a change needs. Where the
// object is apart they are charged before it, at a revision of theirs: it counts as
// uncharged, and is counted.
func chargedAt(c *changes.Change) int64 {
	if c.Apart {
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

// quotaChanged queues a quota that is there at first, or limits something else than its
// status says.
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

// isCounted reports whether what a quota limits was counted since that was said.
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

// Counted reports whether what a quota limits was counted since it last changed.
func Counted(q *corev1.ResourceQuota) bool {
	for name := range q.Spec.Hard {
		if _, ok := q.Status.Used[name]; !ok {
			return false
		}
	}
	return sameList(q.Spec.Hard, q.Status.Hard)
}

// decode returns the object of stored bytes, nil for nil. Where it does not matter what
// is in it, it is empty.
func (s *subscriber) decode(resource changes.Resource, value []byte, revision int64) (codec.Object, error) {
	switch {
	case value == nil:
		return nil, nil
	case !quota.Reads(resource.GroupResource()):
		return &metav1.PartialObjectMetadata{}, nil
	}
	return resource.Kind.DecodeStored(value, revision)
}

// wasUncharged reports whether a change should have been charged and seems not to have
// been. What it says is looked at again later.
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
	return s.config.Ledger.Uncharged(s.ctx, &quota.Write{Resource: resource.GroupResource(), Namespace: c.Namespace, Object: obj, Old: old})
}

func (s *subscriber) isCharged(namespace string, revision int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.charged[namespace] == revision
}

// sync counts what a quota limits, and looks at it again after a while.
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

// Recount counts what a quota limits. Where others keep changing it, those of this server
// wait for the count.
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

// recount counts up to some times, until nobody has changed the quota meanwhile.
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

// sameList reports whether two lists say the same, however they write it.
func sameList(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}
