// Package garbage deletes objects whose owners do not exist, and implements foreground and orphan deletion,
// like kube-controller-manager's garbage-collector-controller. It maintains a graph of the owner references of
// all stored objects. Decisions are based on the stored object and its owners, and each write requires that the
// object is unchanged. Missing or outdated data in the graph can therefore delay a deletion, but cannot cause
// one.
package garbage

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
)

const (
	// Name is the name of the controller.
	Name = "garbage-collector-controller"
	// account is the name of its service account.
	account = "generic-garbage-collector"
	// workers is the number of objects that are processed concurrently. It is large because concurrent writes
	// share fsyncs.
	workers = 128
)

// Config configures a Collector. All fields except Decrypt, QueueMetrics and KeepUnknownOwners are
// required.
type Config struct {
	Decrypt changes.Decrypt
	// Prefix is the prefix of all keys, such as "/registry".
	Prefix string
	// ResourceByPath returns the resource with the given storage path, and ResourceByKind returns the resource
	// with the given kind. They return false if there is no such resource, and must be safe for concurrent use.
	ResourceByPath func(path string) (changes.Resource, bool)
	ResourceByKind func(apiVersion, kind string) (changes.Resource, bool)
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
	// KeepUnknownOwners preserves objects whose owners probably never existed. Tests create such objects. If
	// the deletion of an owner is observed, its dependents are still deleted.
	KeepUnknownOwners bool
}

// Collector implements garbage-collector-controller. It starts no goroutine before Start.
type Collector struct {
	config Config
	access *loopback.Access
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		return New(Config{
			Decrypt: d.Objects.Decrypt, Prefix: d.Objects.Prefix, ResourceByPath: d.Objects.Resources.ByPath, ResourceByKind: d.Objects.Resources.ByKind,
			Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics, KeepUnknownOwners: d.Settings.KeepUnknownOwners,
		}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Collector {
	return &Collector{config: config, access: config.Access.AsController(account)}
}

// worker is the state of a started Collector.
type worker struct {
	*Collector
	graph  *graph
	queue  *work.Queue[object]
	events *loopback.Client[*corev1.Event]
	// missing contains owners that do not exist. deletedOwners contains the UIDs of owners that were deleted
	// while they had dependents. lastSearch is the time of the last search in other namespaces, in nanoseconds
	// since the Unix epoch.
	missing       missingOwners
	deletedOwners ownerSet[string]
	lastSearch    atomic.Int64
	live          liveOwners
	// synced reports whether all objects have been reported. Before that, the graph may lack dependents, and
	// objects are added to deferred instead of the queue. Only the feed's goroutine uses these two fields.
	synced   bool
	deferred []object
}

// Start implements controllers.Controller.
func (c *Collector) Start(ctx context.Context) (changes.Subscriber, func()) {
	w := &worker{Collector: c, graph: newGraph()}
	w.events = loopback.For[*corev1.Event](c.access, corev1.SchemeGroupVersion.WithResource("events"))
	w.queue = work.New(ctx, work.Config[object]{Name: Name, Workers: workers, Sync: w.process, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return w, w.queue.Close
}

// Reset implements changes.Subscriber.
func (w *worker) Reset() {
	w.graph.reset()
	w.live.reset()
	w.synced, w.deferred = false, nil
}

// Synced implements changes.Subscriber.
func (w *worker) Synced() {
	w.synced = true
	w.graph.setComplete()
	for _, o := range w.deferred {
		w.queue.Add(o)
	}
	w.deferred = nil
}

func (w *worker) add(o object) {
	if w.synced {
		w.queue.Add(o)
		return
	}
	w.deferred = append(w.deferred, o)
}

// Changed implements changes.Subscriber.
func (w *worker) Changed(c *changes.Change) {
	old, err := changes.ParseMeta(c.Prev)
	if err != nil {
		old = changes.Meta{} // the error was logged when the old value was reported
		w.live.reset()       // the UID of a deleted owner may be unknown
	}
	now, err := changes.ParseMeta(c.Value)
	if err != nil {
		w.config.Logger.Error("an object cannot be decoded; its dependents are not collected", "path", c.Path, "namespace", c.Namespace, "name", c.Name, "err", err)
		return
	}
	if c.Prev == nil && c.Value != nil {
		w.missing.created(now.UID)
	}
	if len(old.Owners) == 0 && len(now.Owners) == 0 && c.Value != nil && pendingPolicy(&old) == pendingPolicy(&now) {
		return // most objects
	}
	o := w.graph.objectAt(c.Path, c.Namespace, c.Name)
	w.ownersChanged(o, c.Namespace, otherOwners(&old), otherOwners(&now))
	if c.Value == nil {
		w.objectDeleted(o, old.UID)
		return
	}
	w.policyChanged(o, &old, &now)
}

// otherOwners returns the owners of an object, without references to the object itself.
func otherOwners(m *changes.Meta) []changes.Owner {
	if !slices.ContainsFunc(m.Owners, func(o changes.Owner) bool { return o.UID == m.UID }) {
		return m.Owners
	}
	return slices.DeleteFunc(slices.Clone(m.Owners), func(o changes.Owner) bool { return o.UID == m.UID })
}

// ownersChanged updates the edges of a dependent. It enqueues the dependent if its owners have changed, and the
// terminating owners that it no longer references.
func (w *worker) ownersChanged(o object, namespace string, old, now []changes.Owner) {
	if slices.Equal(old, now) {
		return
	}
	for _, owner := range without(old, now) {
		u := parseUID(owner.UID)
		w.graph.remove(u, owner.BlockOwnerDeletion, o)
		if waiting, ok := w.graph.terminatingOwner(u); ok {
			w.add(waiting)
		}
	}
	for _, owner := range now {
		w.graph.add(parseUID(owner.UID), owner.BlockOwnerDeletion, o) // also restores an edge of a duplicate reference
	}
	if len(now) > 0 && !w.live.containsAll(now, namespace) && w.mayHaveExisted(now) {
		w.add(o)
	}
}

// without returns the owners in all that are not in excluded. It takes linear time, because the lists can have
// the size of a request.
func without(all, excluded []changes.Owner) []changes.Owner {
	if len(all) == 0 || len(excluded) == 0 {
		return all
	}
	exclude := make(map[changes.Owner]bool, len(excluded))
	for _, owner := range excluded {
		exclude[owner] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(owner changes.Owner) bool { return exclude[owner] })
}

// mayHaveExisted reports whether owners that are missing may have existed before. With KeepUnknownOwners, it
// returns true only if the deletion of at least one of them was observed.
func (w *worker) mayHaveExisted(owners []changes.Owner) bool {
	return !w.config.KeepUnknownOwners || slices.ContainsFunc(owners, func(o changes.Owner) bool { return w.deletedOwners.has(o.UID) })
}

// objectDeleted enqueues the dependents of a deleted object. id is the UID of the deleted object.
func (w *worker) objectDeleted(o object, id string) {
	u := parseUID(id)
	w.live.remove(u)
	w.graph.setTerminating(u, o, false)
	dependents, _ := w.graph.dependents(u)
	if len(dependents) > 0 {
		w.deletedOwners.add(id)
	}
	for _, dependent := range dependents {
		w.add(dependent)
	}
}

// policyChanged enqueues an owner whose deletion now waits for its dependents. It also enqueues the dependents.
func (w *worker) policyChanged(o object, old, now *changes.Meta) {
	policy := pendingPolicy(now)
	if policy == pendingPolicy(old) {
		return
	}
	u := parseUID(now.UID)
	w.live.remove(u)
	w.graph.setTerminating(u, o, policy != "")
	if policy == "" {
		return
	}
	w.add(o)
	if policy == metav1.DeletePropagationForeground {
		dependents, _ := w.graph.dependents(u)
		for _, dependent := range dependents {
			w.add(dependent)
		}
	}
}

// pendingPolicy returns the propagation policy, Foreground or Orphan, that must be completed before a
// terminating object can be removed. It returns "" if there is none.
func pendingPolicy(m *changes.Meta) metav1.DeletionPropagation {
	switch {
	case !m.Deleting:
		return ""
	case slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return ""
}
