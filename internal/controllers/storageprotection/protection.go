// Package storageprotection adds finalizers to persistent volumes, persistent volume claims and volume
// attributes classes. When such an object is being deleted, it removes the finalizer once no other object uses
// the object. It implements three of kube-controller-manager's controllers, one for each resource.
package storageprotection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

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

// Config configures the controllers. All fields except QueueMetrics are required.
type Config struct {
	// OpenStorage opens the storage of a resource for reading, without a watch cache.
	OpenStorage func(schema.GroupResource) (storage.Interface, error)
	// Access reads and writes objects. The controller replaces the user of Access with its own service account.
	Access *loopback.Access
	Logger *slog.Logger
	// QueueMetrics records the metrics of the work queue; nil disables them.
	QueueMetrics *work.Metrics
}

// Controller is one of the three controllers. It starts no goroutine before Start.
type Controller struct {
	*protection
	logger       *slog.Logger
	queueMetrics *work.Metrics
	storage      storage.Interface
	client       *loopback.Client[codec.Object]
	users        []storage.Interface // the storages of the resources in usedBy
}

// protection specifies the properties in which the three controllers differ.
type protection struct {
	name, account string
	resource      schema.GroupVersionResource
	finalizer     string
	// usedBy lists the resources whose objects may use the protected object. If the protected object has a
	// namespace, only objects in that namespace can use it.
	usedBy []schema.GroupResource
	// uses reports whether user uses the object used. If usedBy is empty, user is nil, and uses reports whether
	// the status of used shows that it is in use.
	uses func(user, used codec.Object) bool
}

// Registrations returns the registrations of the three controllers.
func Registrations() []controllers.Registration {
	var registrations []controllers.Registration
	for _, p := range protections() {
		registrations = append(registrations, controllers.Registration{Name: p.name, New: func(d controllers.Dependencies) (controllers.Controller, error) {
			return New(p.name, Config{OpenStorage: d.OpenStorage, Access: d.Access, Logger: d.Logger, QueueMetrics: d.QueueMetrics})
		}})
	}
	return registrations
}

// New creates a controller without starting it. name is the name of one of the Registrations. New returns an
// error if the name is unknown or if a storage cannot be opened.
func New(name string, config Config) (*Controller, error) {
	i := slices.IndexFunc(protections(), func(p *protection) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no controller %q", name)
	}
	c := &Controller{protection: protections()[i], logger: config.Logger, queueMetrics: config.QueueMetrics}
	c.client = loopback.For[codec.Object](config.Access.AsController(c.account), c.resource)
	var err error
	if c.storage, err = config.OpenStorage(c.resource.GroupResource()); err != nil {
		return nil, err
	}
	for _, user := range c.usedBy {
		stored, err := config.OpenStorage(user)
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
	s.queue = work.New(ctx, work.Config[types.NamespacedName]{Name: c.name, Workers: workers, Sync: c.sync, Logger: c.logger, Metrics: c.queueMetrics})
	return s, s.queue.Close
}

// subscriber enqueues objects that are being deleted or lack the finalizer. If an object that may use protected
// objects changes, it enqueues the protected objects that are being deleted.
type subscriber struct {
	*Controller
	queue   *work.Queue[types.NamespacedName]
	waiting map[types.NamespacedName]bool // objects that are being deleted and have the finalizer
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
		if (name.Namespace == "" || name.Namespace == c.Namespace) && mayHaveUsed(c, name.Name) {
			s.queue.Add(name)
		}
	}
}

// mayHaveUsed reports whether an object may have used a protected object before its change. It contains the name of
// the protected object, or is a pod whose ephemeral volume has this name. It is fast, because the decision for
// a protected object requires a list of all of its possible users.
func mayHaveUsed(c *changes.Change, name string) bool {
	return c.Prev == nil || bytes.Contains(c.Prev, []byte(name)) || strings.HasPrefix(name, c.Name+"-")
}

func (s *subscriber) protectedChanged(c *changes.Change) {
	name := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	meta, err := changes.ParseMeta(c.Value)
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

// sync removes the finalizer of an object that is being deleted and is not in use. It adds the finalizer to an
// object that is not being deleted.
func (c *Controller) sync(ctx context.Context, name types.NamespacedName) error {
	record, err := c.storage.Get(ctx, name, storage.ReadOptions{})
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
		if used, err := c.isUsed(ctx, obj); err != nil || used {
			return err
		}
	}
	_, err = c.client.Update(ctx, name, func(current codec.Object) error {
		if current.GetUID() != obj.GetUID() || (current.GetDeletionTimestamp() != nil) != deleting {
			return errReplaced
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

// errReplaced is returned if the object was replaced or deleted, or if a cache is outdated. The queue retries
// the key.
var errReplaced = errors.New("the object was replaced or deleted")

// isUsed reports whether obj is in use. It lists the objects of the resources in usedBy from storage. If usedBy
// is empty, it uses the status of obj.
func (c *Controller) isUsed(ctx context.Context, obj codec.Object) (bool, error) {
	if len(c.users) == 0 {
		return c.uses(nil, obj), nil
	}
	for _, users := range c.users {
		if found, err := c.isUsedByAny(ctx, users, obj); err != nil || found {
			return found, err
		}
	}
	return false, nil
}
