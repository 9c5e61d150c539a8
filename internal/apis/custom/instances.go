package custom

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// instances is the REST storage of the objects of a version. It passes requests to the generic store,
// which it opens on the first request. All methods may block until the definition is established.
type instances struct{ handler *handler }

var (
	_ rest.Getter            = instances{}
	_ rest.PastGetter        = instances{}
	_ rest.Lister            = instances{}
	_ rest.Watcher           = instances{}
	_ rest.Creater           = instances{}
	_ rest.Updater           = instances{}
	_ rest.GracefulDeleter   = instances{}
	_ rest.CollectionDeleter = instances{}
)

// Get implements rest.Getter.
func (i instances) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.store.Get(ctx, name, options)
}

// GetAt implements rest.PastGetter.
func (i instances) GetAt(ctx context.Context, name types.NamespacedName, revision int64) (*codec.Record, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.store.GetAt(ctx, name, revision)
}

// List implements rest.Lister.
func (i instances) List(ctx context.Context, namespace string, options rest.ListOptions) (*rest.List, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.store.List(ctx, namespace, options)
}

// Watch implements rest.Watcher. The watch ends when another generation replaces the definition or the
// definition is deleted.
func (i instances) Watch(ctx context.Context, namespace string, options rest.ListOptions) (rest.Watch, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := o.store.Watch(ctx, namespace, options)
	if err != nil {
		cancel()
		return nil, err
	}
	i.handler.watches.Add(1)
	lifetime := i.handler.derived.lifetime
	return &watch{Watch: w, handler: i.handler, lifetime: lifetime, ctx: ctx, cancel: cancel, stop: context.AfterFunc(lifetime, cancel)}, nil
}

// watch is a watch that ends with the generation of its definition. After that, its methods return
// rest.ErrWatchClosed, so that clients watch again.
type watch struct {
	rest.Watch
	handler  *handler
	lifetime context.Context // of the generation
	ctx      context.Context // ends with lifetime or the context of the request
	cancel   context.CancelFunc
	// stop unregisters cancel from lifetime. stopWake unregisters the wake function of Poll from
	// ctx; it is nil before the first Poll.
	stop, stopWake func() bool
}

// Next implements rest.Watch.
func (w *watch) Next(ctx context.Context) ([]rest.Event, error) {
	events, err := w.Watch.Next(w.ctx)
	return events, w.apiError(ctx, err)
}

// Poll implements rest.Poller.
func (w *watch) Poll(ctx context.Context, wake func()) ([]rest.Event, error) {
	if w.stopWake == nil {
		w.stopWake = context.AfterFunc(w.ctx, wake)
	}
	events, err := rest.Poll(w.ctx, w.Watch, wake)
	return events, w.apiError(ctx, err)
}

func (w *watch) apiError(ctx context.Context, err error) error {
	if err != nil && err != rest.ErrWouldBlock && ctx.Err() == nil && w.lifetime.Err() != nil {
		return rest.ErrWatchClosed
	}
	return conversion.WatchError(err)
}

// Close implements rest.Watch.
func (w *watch) Close() error {
	w.stop()
	if w.stopWake != nil {
		w.stopWake()
	}
	w.cancel()
	w.handler.watches.Add(-1)
	return w.Watch.Close()
}

// Create implements rest.Creater.
func (i instances) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	release, ok := i.handler.creates.acquire()
	if !ok {
		return nil, i.handler.createForbidden(obj.GetName())
	}
	defer release()
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.store.Create(ctx, obj, validate, options)
}

// Update implements rest.Updater.
func (i instances) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, false, err
	}
	if !options.AllowCreate {
		return o.store.Update(ctx, name, update, options)
	}
	release, ok := i.handler.creates.acquire()
	if ok {
		defer release()
		return o.store.Update(ctx, name, update, options)
	}
	options.AllowCreate = false
	record, created, err := o.store.Update(ctx, name, update, options)
	if apierrors.IsNotFound(err) {
		err = i.handler.createForbidden(name.Name)
	}
	return record, created, err
}

// createForbidden returns the error for clients that create an object of a terminating definition.
func (h *handler) createForbidden(name string) error {
	return apierrors.NewForbidden(h.group, name, errors.New("create not allowed while custom resource definition is terminating"))
}

// Delete implements rest.GracefulDeleter.
func (i instances) Delete(ctx context.Context, name types.NamespacedName, validate rest.ValidateObjectFunc, options metav1.DeleteOptions) (*codec.Record, bool, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, false, err
	}
	return o.store.Delete(ctx, name, validate, options)
}

// DeleteCollection implements rest.CollectionDeleter.
func (i instances) DeleteCollection(ctx context.Context, namespace string, validate rest.ValidateObjectFunc, options metav1.DeleteOptions, list rest.ListOptions) (*rest.List, error) {
	o, err := i.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.store.DeleteCollection(ctx, namespace, validate, options, list)
}

// statuses is the REST storage of the status subresource.
type statuses struct{ handler *handler }

var (
	_ rest.Getter  = statuses{}
	_ rest.Updater = statuses{}
)

// Get implements rest.Getter.
func (s statuses) Get(ctx context.Context, name types.NamespacedName, options metav1.GetOptions) (*codec.Record, error) {
	o, err := s.handler.open(ctx)
	if err != nil {
		return nil, err
	}
	return o.store.Get(ctx, name, options)
}

// Update implements rest.Updater.
func (s statuses) Update(ctx context.Context, name types.NamespacedName, update rest.UpdateFunc, options rest.UpdateOptions) (*codec.Record, bool, error) {
	o, err := s.handler.open(ctx)
	if err != nil {
		return nil, false, err
	}
	return o.status.Update(ctx, name, update, options)
}
