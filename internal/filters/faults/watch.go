package faults

import (
	"context"
	"net/http"
	"sync"
)

// watch is a watch under way, as the writer of its answer.
type watch struct {
	http.ResponseWriter
	request *http.Request
	ctx     context.Context // of the handler
	cancel  context.CancelFunc

	mu      sync.Mutex
	dropped bool
	frozen  []*Injection // events wait for the removal of all
}

func newWatch(w http.ResponseWriter, r *http.Request) *watch {
	ctx, cancel := context.WithCancel(r.Context())
	return &watch{ResponseWriter: w, request: r, ctx: ctx, cancel: cancel}
}

// meet drops or freezes the watch.
func (w *watch) meet(i *Injection) {
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

// Write waits while the watch is frozen.
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

// Unwrap is for http.ResponseController.
func (w *watch) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end is called when the handler returns: a watch that was dropped breaks off.
func (w *watch) end() {
	w.cancel()
	w.mu.Lock()
	dropped := w.dropped
	w.mu.Unlock()
	if dropped {
		panic(http.ErrAbortHandler)
	}
}
