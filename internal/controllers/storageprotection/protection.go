// Package storageprotection removes the finalizers of deleted volumes, claims and volume attributes
// classes when no object uses them, like three of kube-controller-manager's controllers: for
// persistent volume claims, persistent volumes and volume attributes classes.
package storageprotection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

const workers = 16

// Config configures the controllers. All fields except Queues are required.
type Config struct {
	// Stored opens the stored objects of a resource, past the watch cache.
	Stored func(schema.GroupResource) (storage.Interface, error)
	// Access is to the control plane; its user is replaced by the controllers'.
	Access *loopback.Access
	Logger *slog.Logger
	// Queues are the metrics of the work queue; nil disables them.
	Queues *work.Metrics
}

// Controller is one of the controllers.
type Controller struct {
	*protection
	logger *slog.Logger
	queues *work.Metrics
	stored storage.Interface
	client *loopback.Client[codec.Object]
	users  []storage.Interface // of the resources in usedBy
}

// protection specifies the differences between the controllers.
type protection struct {
	name, account string
	resource      schema.GroupVersionResource
	finalizer     string
	// usedBy are the resources whose objects may use the protected object, in its namespace, or
	// anywhere if it is cluster-scoped.
	usedBy []schema.GroupResource
	// uses reports whether user uses the object or, if usedBy is empty, whether the object's own
	// status reports that it is used.
	uses func(user, used codec.Object) bool
}

// Registrations returns the registrations of the controllers.
func Registrations() []controllers.Registration {
	var registrations []controllers.Registration
	for _, p := range protections() {
		registrations = append(registrations, controllers.Registration{Name: p.name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
			return New(p.name, Config{Stored: d.Stored, Access: d.Access, Logger: d.Logger, Queues: d.Queues})
		}})
	}
	return registrations
}

// New returns the controller with a name, which is not started. The name must be one of the registrations.
func New(name string, config Config) (*Controller, error) {
	i := slices.IndexFunc(protections(), func(p *protection) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no controller %q", name)
	}
	c := &Controller{protection: protections()[i], logger: config.Logger, queues: config.Queues}
	c.client = loopback.For[codec.Object](config.Access.AsController(c.account), c.resource)
	var err error
	if c.stored, err = config.Stored(c.resource.GroupResource()); err != nil {
		return nil, err
	}
	for _, user := range c.usedBy {
		stored, err := config.Stored(user)
		if err != nil {
			return nil, err
		}
		c.users = append(c.users, stored)
	}
	return c, nil
}

// Start implements controllers.Controller.
func (c *Controller) Start(ctx context.Context) (changes.Subscriber, func()) {
	s := &subscriber{Controller: c}
	s.queue = work.New(ctx, work.Config[types.NamespacedName]{Name: c.name, Workers: workers, Do: c.sync, Logger: c.logger, Metrics: c.queues})
	return s, s.queue.Close
}

// subscriber enqueues objects that are deleted or lack the finalizer, and deleted objects whose
// user has changed.
type subscriber struct {
	*Controller
	queue   *work.Queue[types.NamespacedName]
	waiting map[types.NamespacedName]bool // deleted, with the finalizer
}

// Reset implements changes.Subscriber.
func (s *subscriber) Reset() { s.waiting = map[types.NamespacedName]bool{} }

// Synced implements changes.Subscriber.
func (*subscriber) Synced() {}

// Changed implements changes.Subscriber.
func (s *subscriber) Changed(c *changes.Change) {
	if c.Path == s.resource.Resource {
		s.protectedChanged(c)
		return
	}
	if len(s.waiting) == 0 || !slices.ContainsFunc(s.usedBy, func(r schema.GroupResource) bool { return r.Resource == c.Path }) {
		return
	}
	for name := range s.waiting {
		if name.Namespace == "" || name.Namespace == c.Namespace {
			s.queue.Add(name)
		}
	}
}

func (s *subscriber) protectedChanged(c *changes.Change) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	meta, err := changes.MetaOf(c.Value)
	if err != nil || c.Value == nil {
		delete(s.waiting, name)
		return
	}
	protected := slices.Contains(meta.Finalizers, s.finalizer)
	if meta.Deleting && protected {
		s.waiting[name] = true
	} else {
		delete(s.waiting, name)
	}
	if meta.Deleting == protected {
		s.queue.Add(name)
	}
}

// sync removes the finalizer of a deleted object that is not used, and adds it to an object that is
// not deleted.
func (c *Controller) sync(ctx context.Context, name types.NamespacedName) error {
	record, err := c.stored.Get(ctx, name, storage.ReadOptions{})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	obj, err := record.Shared()
	if err != nil {
		return err
	}
	deleting, protected := obj.GetDeletionTimestamp() != nil, slices.Contains(obj.GetFinalizers(), c.finalizer)
	if deleting != protected {
		return nil
	}
	if deleting {
		if used, err := c.used(ctx, obj); err != nil || used {
			return err
		}
	}
	_, err = c.client.Update(ctx, name, func(current codec.Object) error {
		if current.GetUID() != obj.GetUID() || (current.GetDeletionTimestamp() != nil) != deleting {
			return errOther
		}
		finalizers := slices.DeleteFunc(slices.Clone(current.GetFinalizers()), func(f string) bool { return f == c.finalizer })
		if !deleting {
			finalizers = append(finalizers, c.finalizer)
		}
		current.SetFinalizers(finalizers)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// errOther: the object was replaced by another one of the same name or deleted, or the cache is
// outdated. The object is processed again.
var errOther = errors.New("it is not the same any more")

// used reports whether something uses an object.
func (c *Controller) used(ctx context.Context, obj codec.Object) (bool, error) {
	if len(c.users) == 0 {
		return c.uses(nil, obj), nil
	}
	for _, users := range c.users {
		if found, err := c.usedAmong(ctx, users, obj); err != nil || found {
			return found, err
		}
	}
	return false, nil
}
