// Package garbage deletes objects whose owners are gone, and holds owners back, or lets
// their dependents go, as their deletions ask for, as kube-controller-manager's
// garbage-collector-controller does.
//
// It is fed by the changes of everything that is stored, and keeps of it who names whom
// as an owner (graph.go). What is to be done about an object is decided on the object
// and its owners as they are stored at that time, and written on the condition that the
// object is still the same: what the graph has late, or not at all, can delay a
// deletion, but not cause one.
package garbage

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
)

const (
	// Name is that of the controller.
	Name = "garbage-collector-controller"
	// account is the service account that it writes as.
	account = "generic-garbage-collector"
	// workers is how many objects are dealt with concurrently, so that they share
	// fsyncs.
	workers = 128
)

// Config configures a Collector. All fields but Plain, Queues and KeepUnknown are required.
type Config struct {
	Plain changes.Plain
	// Prefix of all keys, such as "/registry".
	Prefix string
	// OfPath returns the resource whose objects are stored below a path, and OfKind that
	// of a kind; false where this server has none.
	OfPath func(path string) (changes.Resource, bool)
	OfKind func(apiVersion, kind string) (changes.Resource, bool)
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil: none.
	Queues *work.Metrics
	// KeepUnknown keeps the dependents of owners that were never there, as far as is known:
	// tests make such owners up. What had an owner is collected when that goes.
	KeepUnknown bool
}

// Collector is the controller.
type Collector struct {
	config Config
	access *loopback.Access
}

// New returns a collector that has not begun.
func New(config Config) *Collector {
	return &Collector{config: config, access: config.Access.AsController(account)}
}

// collection is the work of a collector from one beginning to its end.
type collection struct {
	*Collector
	graph  *graph
	queue  *work.Queue[object]
	events *loopback.Client[*corev1.Event]
	// absent are owners that were not where they should be, left those that went while
	// they had dependents. searched is when other namespaces were last searched.
	absent   remembered[absentOwner]
	left     remembered[string]
	searched atomic.Int64
	living   livingOwners
	// synced: all objects have been seen. Before that, the graph may lack dependents,
	// and what is to be looked at waits. They belong to the feed's goroutine.
	synced  bool
	waiting []object
}

// Begin returns the subscriber that does the work until ctx ends, and what waits for
// its end.
func (c *Collector) Begin(ctx context.Context) (changes.Subscriber, func()) {
	w := &collection{Collector: c, graph: newGraph()}
	w.events = loopback.For[*corev1.Event](c.access, corev1.SchemeGroupVersion.WithResource("events"))
	w.queue = work.New(ctx, work.Config[object]{Name: Name, Workers: workers, Do: w.look, Logger: c.config.Logger, Metrics: c.config.Queues})
	return w, w.queue.Close
}

// Reset implements changes.Subscriber.
func (w *collection) Reset() {
	w.graph.reset()
	w.living.reset()
	w.synced, w.waiting = false, nil
}

// Synced implements changes.Subscriber.
func (w *collection) Synced() {
	w.synced = true
	for _, o := range w.waiting {
		w.queue.Add(o)
	}
	w.waiting = nil
}

func (w *collection) add(o object) {
	if w.synced {
		w.queue.Add(o)
		return
	}
	w.waiting = append(w.waiting, o)
}

// Changed implements changes.Subscriber.
func (w *collection) Changed(c *changes.Change) {
	old, err := changes.MetaOf(c.Prev)
	if err != nil {
		old = changes.Meta{} // it was said when it was new
		w.living.reset()     // whose end it is, if it is one, nobody knows
	}
	now, err := changes.MetaOf(c.Value)
	if err != nil {
		w.config.Logger.Error("an object cannot be read; what it owns is not collected", "path", c.Path, "namespace", c.Namespace, "name", c.Name, "err", err)
		return
	}
	if len(old.Owners) == 0 && len(now.Owners) == 0 && c.Value != nil && policyOf(&old) == policyOf(&now) {
		return // most objects
	}
	o := w.graph.object(c.Path, c.Namespace, c.Name)
	w.ownersChanged(o, c.Namespace, others(&old), others(&now))
	if c.Value == nil {
		w.gone(o, old.UID)
		return
	}
	w.policyChanged(o, &old, &now)
}

// others are the owners of an object other than itself, which can neither keep itself
// nor wait for itself.
func others(m *changes.Meta) []changes.Owner {
	if !slices.ContainsFunc(m.Owners, func(o changes.Owner) bool { return o.UID == m.UID }) {
		return m.Owners
	}
	return slices.DeleteFunc(slices.Clone(m.Owners), func(o changes.Owner) bool { return o.UID == m.UID })
}

// ownersChanged updates the edges of a dependent, looks at it if it has other owners
// now, and at owners that waited for it.
func (w *collection) ownersChanged(o object, namespace string, old, now []changes.Owner) {
	if slices.Equal(old, now) {
		return
	}
	for _, owner := range old {
		if !slices.Contains(now, owner) {
			u := uidOf(owner.UID)
			w.graph.remove(u, owner.Blocks, o)
			if waiting, ok := w.graph.dying(u); ok {
				w.add(waiting)
			}
		}
	}
	for _, owner := range now {
		w.graph.add(uidOf(owner.UID), owner.Blocks, o) // again, where the same owner stood twice
	}
	if len(now) > 0 && !w.living.all(now, namespace) && w.known(now) {
		w.add(o)
	}
}

// known reports whether owners that are not there may have been.
func (w *collection) known(owners []changes.Owner) bool {
	return !w.config.KeepUnknown || slices.ContainsFunc(owners, func(o changes.Owner) bool { return w.left.has(o.UID) })
}

// gone looks at the dependents of an object that does not exist any more.
func (w *collection) gone(o object, id string) {
	u := uidOf(id)
	w.living.forget(u)
	w.graph.setDying(u, o, false)
	dependents := w.graph.dependents(u)
	if len(dependents) > 0 {
		w.left.add(id)
	}
	for _, dependent := range dependents {
		w.add(dependent)
	}
}

// policyChanged looks at an owner whose deletion has begun to wait for its dependents,
// and at these.
func (w *collection) policyChanged(o object, old, now *changes.Meta) {
	policy := policyOf(now)
	if policy == policyOf(old) {
		return
	}
	u := uidOf(now.UID)
	w.living.forget(u)
	w.graph.setDying(u, o, policy != "")
	if policy == "" {
		return
	}
	w.add(o)
	if policy == metav1.DeletePropagationForeground {
		for _, dependent := range w.graph.dependents(u) {
			w.add(dependent)
		}
	}
}

// policyOf returns what the deletion of an object waits for: that its dependents are
// deleted (Foreground), or orphaned (Orphan); "" where it does not wait.
func policyOf(m *changes.Meta) metav1.DeletionPropagation {
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
