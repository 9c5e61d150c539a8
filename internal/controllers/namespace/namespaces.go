// Package namespace deletes the content of terminating namespaces and then finalizes the namespaces, like
// kube-controller-manager's namespace-controller. It deletes pods first, and then all other objects. It finds
// the objects by reading ranges of keys. The conditions of the namespace report the content that remains.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/request"
)

const (
	// Name is the name of the controller.
	Name = "namespace-controller"
	// account is the name of its service account.
	account = "namespace-controller"
	// workers is the number of namespaces that are processed concurrently.
	workers = 8
	// recheckDelay is the delay between the deletion of an object in a terminating namespace and the next check
	// of the namespace. Several objects are often deleted in quick succession, and one check then covers all of
	// them.
	recheckDelay = 20 * time.Millisecond
	// remotePeriod is the interval between checks of aggregated servers. They do not report deletions to this
	// server.
	remotePeriod = 5 * time.Second
)

// Config configures a Controller. All fields except Decrypt, Grace and QueueMetrics are required.
type Config struct {
	Decrypt changes.Decrypt
	// Prefix is the prefix of all keys, such as "/registry".
	Prefix string
	// Resources returns the namespaced resources whose objects are stored.
	Resources func() []changes.Resource
	// DeleteRemote deletes the objects that aggregated servers store in a namespace, with the permissions of
	// user.
	DeleteRemote func(ctx context.Context, user *request.User, namespace string) controllers.RemoteContent
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	// Grace is the delay between the deletion of a namespace and the first attempt to delete its content.
	Grace  time.Duration
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller implements namespace-controller. It starts no goroutine before Start.
type Controller struct {
	config     Config
	access     *loopback.Access
	namespaces *loopback.Client[*corev1.Namespace]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		return New(Config{
			Decrypt: d.Objects.Decrypt, Prefix: d.Objects.Prefix, Resources: d.Objects.Resources.Namespaced, DeleteRemote: d.DeleteRemote,
			Access: d.Access, Grace: d.Settings.NamespaceGrace, Logger: d.Logger, QueueMetrics: d.QueueMetrics,
		}), nil
	}}
}

// New creates the controller without starting it.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		config: config, access: access,
		namespaces: loopback.For[*corev1.Namespace](access, corev1.SchemeGroupVersion.WithResource("namespaces")),
	}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: workers, Sync: c.sync, Logger: c.config.Logger, Metrics: c.config.QueueMetrics})
	return &subscriber{queue: queue, grace: c.config.Grace}, queue.Close
}

// subscriber enqueues a namespace when it is terminating, and again when an object in it is deleted.
type subscriber struct {
	queue       *work.Queue[string]
	grace       time.Duration
	terminating map[string]bool
}

func (s *subscriber) Reset() { s.terminating = map[string]bool{} }
func (*subscriber) Synced()  {}

func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "namespaces" {
		s.namespaceChanged(c)
		return
	}
	if c.Path == "apiregistration.k8s.io/apiservices" {
		for name := range s.terminating { // an aggregated server may be available again
			s.queue.Add(name)
		}
		return
	}
	if c.Namespace != "" && c.Value == nil && s.terminating[c.Namespace] {
		s.queue.AddAfter(c.Namespace, recheckDelay)
	}
}

func (s *subscriber) namespaceChanged(c *changes.Change) {
	meta, err := changes.ParseMeta(c.Value)
	if err != nil || !meta.Deleting {
		delete(s.terminating, c.Name)
		return
	}
	if !s.terminating[c.Name] {
		s.terminating[c.Name] = true
		if s.grace > 0 {
			s.queue.AddAfter(c.Name, s.grace)
			return
		}
		s.queue.Add(c.Name)
	}
}

// errReplaced is returned if another namespace with the same name has replaced the namespace, or if a cache
// does not show its deletion yet. The queue retries the key.
var errReplaced = errors.New("the namespace was replaced")

// sync deletes the content of a terminating namespace, and reports the content that remains. If nothing
// remains, it finalizes the namespace.
func (c *Controller) sync(ctx context.Context, name string) error {
	ns, err := c.namespaces.Get(ctx, types.NamespacedName{Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes):
		return nil
	}
	found := c.deleteContent(ctx, name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.updateConditions(ctx, ns, found); err != nil {
		return ignoreNotFound(fmt.Errorf("update the remaining contents in the status of namespace %s: %w", name, err))
	}
	if err := found.err(); err != nil {
		return fmt.Errorf("empty namespace %s: %w", name, err)
	}
	switch {
	case found.remote:
		return work.RequeueAfter(remotePeriod)
	case found.hasRemaining():
		return nil // the deletion of an object enqueues the namespace again
	}
	return ignoreNotFound(c.finalize(ctx, ns))
}

// finalize removes the finalizer of the namespace, which completes the deletion.
func (c *Controller) finalize(ctx context.Context, ns *corev1.Namespace) error {
	_, err := c.namespaces.Subresource("finalize").Update(ctx, types.NamespacedName{Name: ns.Name}, func(current *corev1.Namespace) error {
		if !isSameDeletion(current, ns) {
			return errReplaced
		}
		current.Spec.Finalizers = slices.DeleteFunc(current.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return nil
	})
	if err != nil {
		return fmt.Errorf("finalize namespace %s: %w", ns.Name, err)
	}
	return nil
}

func isSameDeletion(a, b *corev1.Namespace) bool { return a.UID == b.UID && a.DeletionTimestamp != nil }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
