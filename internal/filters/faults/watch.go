package faults

import (
	"context"
	"net/http"
	"sync"
)

// watch is the ResponseWriter of an active watch.
type watch struct {
	http.ResponseWriter
	request *http.Request
	ctx     context.Context // the context of the handler
	cancel  context.CancelFunc

	mu      sync.Mutex
	dropped bool
	frozen  []*Injection // writes wait until all of them are removed
}

func newWatch(w http.ResponseWriter, r *http.Request) *watch {
	ctx, cancel := context.WithCancel(r.Context())
	return &watch{ResponseWriter: w, request: r, ctx: ctx, cancel: cancel}
}

// apply aborts or freezes the watch.
func (w *watch) apply(i *Injection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.fault.DropWatch {
		w.dropped = true
		w.cancel()
	}
	if i.fault.FreezeWatch {
		w.frozen = append(w.frozen, i)
	}
}

// Write implements io.Writer. It blocks while the watch is frozen.
func (w *watch) Write(p []byte) (int, error) {
	for {
		w.mu.Lock()
		if len(w.frozen) == 0 {
			w.mu.Unlock()
			return w.ResponseWriter.Write(p)
		}
		first := w.frozen[0]
		w.mu.Unlock()
		select {
		case <-first.removed:
			w.mu.Lock()
			w.frozen = w.frozen[1:]
			w.mu.Unlock()
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (w *watch) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish is called when the handler returns. It aborts the response of a dropped watch.
func (w *watch) finish() {
	w.cancel()
	w.mu.Lock()
	dropped := w.dropped
	w.mu.Unlock()
	if dropped {
		panic(http.ErrAbortHandler)
	}
}
