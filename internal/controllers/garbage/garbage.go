// Package garbage deletes objects whose owners do not exist, and implements foreground and orphan
// deletion, like kube-controller-manager's garbage-collector-controller. It follows the changes of
// all stored objects, and has a graph of owner references (graph.go). It decides on the stored
// object and its owners, and writes with the precondition that the object is unchanged: missing or
// late data of the graph can delay a deletion, but not cause one.
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
	// Name is that of the controller.
	Name = "garbage-collector-controller"
	// account is the service account that it writes as.
	account = "generic-garbage-collector"
	// workers is how many objects are dealt with concurrently, so that they share
	// fsyncs.
	workers = 128
)

// Config configures a Collector. All fields but Decrypt, Queues and KeepUnknown are required.
type Config struct {
	Decrypt changes.Decrypt
	// Prefix of all keys, such as "/registry".
	Prefix string
	// OfPath returns the resource with a storage path, and OfKind that of a kind, or false if there
	// is none.
	OfPath func(path string) (changes.Resource, bool)
	OfKind func(apiVersion, kind string) (changes.Resource, bool)
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
	// KeepUnknown preserves the dependents of owners that probably never existed, which tests use.
	// Dependents of existing owners are collected after the deletion of the owner.
	KeepUnknown bool
}

// Collector is the controller.
type Collector struct {
	config Config
	access *loopback.Access
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		return New(Config{
			Decrypt: d.Objects.Decrypt, Prefix: d.Objects.Prefix, OfPath: d.Objects.Resources.ByPath, OfKind: d.Objects.Resources.ByKind,
			Access: d.Access, Logger: d.Logger, Queues: d.Queues, KeepUnknown: d.Settings.KeepUnknownOwners,
		}), nil
	}}
}

// New returns a collector that has not started.
func New(config Config) *Collector {
	return &Collector{config: config, access: config.Access.AsController(account)}
}

// collection is the work of a collector from one beginning to its end.
type collection struct {
	*Collector
	graph  *graph
	queue  *work.Queue[object]
	events *loopback.Client[*corev1.Event]
	// absent are missing owners; left are owners that were deleted while they had dependents.
	// searched is the time of the last search in other namespaces.
	absent   remembered[absentOwner]
	left     remembered[string]
	searched atomic.Int64
	living   livingOwners
	// synced: all objects were reported. Before that, the graph may lack dependents, and queued
	// objects wait. Only the feed's goroutine uses it.
	synced  bool
	waiting []object
}

// Start implements controllers.Controller.
func (c *Collector) Start(ctx context.Context) (changes.Subscriber, func()) {
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
		old = changes.Meta{} // it was reported when it was new
		w.living.reset()     // a deleted owner without a known UID
	}
	now, err := changes.MetaOf(c.Value)
	if err != nil {
		w.config.Logger.Error("an object cannot be decoded; its dependents are not collected", "path", c.Path, "namespace", c.Namespace, "name", c.Name, "err", err)
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

// gone enqueues the dependents of a deleted object.
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

// policyChanged enqueues an owner whose deletion waits for its dependents, and the dependents.
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

// policyOf returns the pending propagation policy of an object: Foreground or Orphan; "" if its
// deletion does not wait.
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
