package upstream

import (
	"context"
	"errors"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"

	"mainstay.dev/mainstay/internal/rest"
)

// watchBuffer is the number of events that a watch buffers, because Mainstay's watches have no buffer of their
// own.
const watchBuffer = 100

// watcher adapts a watch to upstream's interface.
type watcher struct {
	store  *Store
	cancel context.CancelFunc
	events chan watch.Event
}

// Watch implements upstream's Interface.
func (s *Store) Watch(ctx context.Context, key string, opts upstream.ListOptions) (watch.Interface, error) {
	namespace, options := s.options(key, opts)
	options.Deadline, _ = ctx.Deadline()
	ctx, cancel := context.WithCancel(ctx)
	ours, err := s.objects.Watch(ctx, namespace, options)
	if err != nil && ctx.Err() == nil {
		cancel()
		return nil, s.explain(key, err)
	}
	w := &watcher{store: s, cancel: cancel, events: make(chan watch.Event, watchBuffer)}
	if err != nil {
		close(w.events) // as in upstream, it is not an error if the context has ended before the watch starts
		return w, nil
	}
	go w.run(ctx, ours)
	return w, nil
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// run forwards events until the watch is stopped or ends.
func (w *watcher) run(ctx context.Context, ours rest.Watch) {
	defer close(w.events)
	defer ours.Close()
	for {
		events, err := ours.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, rest.ErrWatchClosed) {
				w.send(ctx, failure(err))
			}
			return
		}
		for _, ev := range events {
			if !w.send(ctx, w.event(ev)) {
				return
			}
		}
	}
}

func (w *watcher) send(ctx context.Context, ev watch.Event) bool {
	select {
	case w.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *watcher) event(ev rest.Event) watch.Event {
	pod := &example.Pod{}
	if ev.Record == nil {
		pod.ResourceVersion = strconv.FormatInt(ev.Revision, 10)
		if ev.InitialEventsEnd {
			pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		return watch.Event{Type: ev.Type, Object: pod}
	}
	if err := w.store.fromRecord(ev.Record, pod); err != nil {
		return failure(err)
	}
	return watch.Event{Type: ev.Type, Object: pod}
}

// failure returns the ERROR event for an error.
func failure(err error) watch.Event {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return watch.Event{Type: watch.Error, Object: &s}
}
