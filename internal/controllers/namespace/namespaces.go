// Package namespace deletes the content of terminating namespaces, and then the namespaces, like
// kube-controller-manager's namespace-controller: pods first, then all other objects, by key
// ranges. Conditions of the namespace report the remaining content.
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
	// Name is that of the controller.
	Name = "namespace-controller"
	// account is the service account that it writes as.
	account = "namespace-controller"
	// workers is how many namespaces are emptied concurrently.
	workers = 8
	// pause is the delay between a deletion in a namespace and the next check, because objects are
	// deleted in groups.
	pause = 20 * time.Millisecond
	// remotePeriod is the interval of checks of aggregated servers, which do not report deletions.
	remotePeriod = 5 * time.Second
)

// Config configures a Controller. All fields but Decrypt and Grace are required.
type Config struct {
	Decrypt changes.Decrypt
	// Prefix of all keys, such as "/registry".
	Prefix string
	// Resources returns the resources that namespaces hold objects of.
	Resources func() []changes.Resource
	// Remote deletes the objects of aggregated servers in a namespace, as a user.
	Remote func(ctx context.Context, user *request.User, namespace string) controllers.RemoteContent
	// Access is to the control plane; its user is replaced by the controller's.
	Access *loopback.Access
	// Grace is the delay between the deletion of a namespace and its first check.
	Grace  time.Duration
	Logger *slog.Logger
	// Queues are the metrics of the work queue; may be nil.
	Queues *work.Metrics
}

// Controller is the controller.
type Controller struct {
	config     Config
	access     *loopback.Access
	namespaces *loopback.Client[*corev1.Namespace]
}

// Registration returns the registration of the controller.
func Registration() controllers.Registration {
	return controllers.Registration{Name: Name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
		return New(Config{
			Decrypt: d.Objects.Decrypt, Prefix: d.Objects.Prefix, Resources: d.Objects.Resources.Namespaced, Remote: d.DeleteRemote,
			Access: d.Access, Grace: d.Settings.NamespaceGrace, Logger: d.Logger, Queues: d.Queues,
		}), nil
	}}
}

// New returns a controller that has not started.
func New(config Config) *Controller {
	access := config.Access.AsController(account)
	return &Controller{
		config: config, access: access,
		namespaces: loopback.For[*corev1.Namespace](access, corev1.SchemeGroupVersion.WithResource("namespaces")),
	}
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	queue := work.New(ctx, work.Config[string]{Name: Name, Workers: workers, Do: c.sync, Logger: c.config.Logger, Metrics: c.config.Queues})
	return &subscriber{queue: queue, grace: c.config.Grace}, queue.Close
}

// subscriber enqueues terminating namespaces, again after each deletion in them.
type subscriber struct {
	queue *work.Queue[string]
	grace time.Duration
	dying map[string]bool
}

func (s *subscriber) Reset() { s.dying = map[string]bool{} }
func (*subscriber) Synced()  {}

func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == "namespaces" {
		s.namespaceChanged(c)
		return
	}
	if c.Path == "apiregistration.k8s.io/apiservices" {
		for name := range s.dying { // the server may have returned, or its objects may be deleted
			s.queue.Add(name)
		}
		return
	}
	if c.Namespace != "" && c.Value == nil && s.dying[c.Namespace] {
		s.queue.AddAfter(c.Namespace, pause)
	}
}

func (s *subscriber) namespaceChanged(c *changes.Change) {
	meta, err := changes.MetaOf(c.Value)
	if err != nil || !meta.Deleting {
		delete(s.dying, c.Name)
		return
	}
	if !s.dying[c.Name] {
		s.dying[c.Name] = true
		if s.grace > 0 {
			s.queue.AddAfter(c.Name, s.grace)
			return
		}
		s.queue.Add(c.Name)
	}
}

// errOther: the namespace is not the one it was, or a cache has not seen its deletion
// yet. Either is looked at again.
var errOther = errors.New("the namespace is not the same any more")

// sync deletes the content of a terminating namespace, reports the remaining content, and completes
// the deletion of an empty namespace.
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
	found := c.empty(ctx, name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.report(ctx, ns, found); err != nil {
		return ignoreGone(fmt.Errorf("update the remaining contents in the status of namespace %s: %w", name, err))
	}
	if err := found.err(); err != nil {
		return fmt.Errorf("empty namespace %s: %w", name, err)
	}
	switch {
	case found.remote:
		return work.Later(remotePeriod)
	case found.remains():
		return nil // until an object is deleted
	}
	return ignoreGone(c.finalize(ctx, ns))
}

// finalize removes the namespace's finalizer, which completes its deletion.
func (c *Controller) finalize(ctx context.Context, ns *corev1.Namespace) error {
	_, err := c.namespaces.Subresource("finalize").Update(ctx, types.NamespacedName{Name: ns.Name}, func(current *corev1.Namespace) error {
		if !isSame(current, ns) {
			return errOther
		}
		current.Spec.Finalizers = slices.DeleteFunc(current.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		return nil
	})
	if err != nil {
		return fmt.Errorf("finalize namespace %s: %w", ns.Name, err)
	}
	return nil
}

func isSame(a, b *corev1.Namespace) bool { return a.UID == b.UID && a.DeletionTimestamp != nil }

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
