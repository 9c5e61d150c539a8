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

// instances is the REST storage of the objects of a version: the generic store, opened on demand.
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

// Watch implements rest.Watcher. A change of the definition ends it.
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
	life := i.handler.state.life
	return &watch{Watch: w, handler: i.handler, life: life, ctx: ctx, cancel: cancel, stop: context.AfterFunc(life, cancel)}, nil
}

// watch is a watch that ends, in good order, with the definition as it is.
type watch struct {
	rest.Watch
	handler *handler
	life    context.Context // the definition's
	ctx     context.Context // the watch's: ends with either
	cancel  context.CancelFunc
	stop    func() bool
	unwake  func() bool // set once the watch is polled
}

// Next implements rest.Watch.
func (w *watch) Next(ctx context.Context) ([]rest.Event, error) {
	events, err := w.Watch.Next(w.ctx)
	return events, w.apiError(ctx, err)
}

// Poll implements rest.Poller.
func (w *watch) Poll(ctx context.Context, wake func()) ([]rest.Event, error) {
	if w.unwake == nil {
		w.unwake = context.AfterFunc(w.ctx, wake) // which ends with the definition
	}
	events, err := rest.Poll(w.ctx, w.Watch, wake)
	return events, w.apiError(ctx, err)
}

func (w *watch) apiError(ctx context.Context, err error) error {
	if err != nil && err != rest.ErrWouldBlock && ctx.Err() == nil && w.life.Err() != nil {
		return rest.ErrWatchClosed
	}
	return conversion.WatchError(err)
}

// Close implements rest.Watch.
func (w *watch) Close() error {
	w.stop()
	if w.unwake != nil {
		w.unwake()
	}
	w.cancel()
	w.handler.watches.Add(-1)
	return w.Watch.Close()
}

// Create implements rest.Creater.
func (i instances) Create(ctx context.Context, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	leave, open := i.handler.barrier.enter()
	if !open {
		return nil, i.handler.refuseCreate(obj.GetName())
	}
	defer leave()
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
	leave, open := i.handler.barrier.enter()
	if open {
		defer leave()
		return o.store.Update(ctx, name, update, options)
	}
	options.AllowCreate = false
	record, created, err := o.store.Update(ctx, name, update, options)
	if apierrors.IsNotFound(err) {
		err = i.handler.refuseCreate(name.Name)
	}
	return record, created, err
}

// refuseCreate returns the error for creations in a terminating definition.
func (h *handler) refuseCreate(name string) error {
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

// statuses is the REST storage of /status.
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
