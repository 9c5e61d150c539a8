package filters

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/request"
)

// detaching is a ResponseWriter that can be detached, like the ResponseWriter of package http2. It records
// the detached function.
type detaching struct {
	*httptest.ResponseRecorder
	rest func() bool
}

func (d *detaching) Detach(do func() bool) { d.rest = do }
func (d *detaching) Resume()               {}
func (d *detaching) HandOff()              {}

// ends is a cleaner that records its calls.
type ends struct{ seen []any }

func (e *ends) cleanup(_ *response, panicked any) { e.seen = append(e.seen, panicked) }

// TestDetach checks that the cleanups of filters run when the function that the handler detached is
// done.
func TestDetach(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	begun := &ends{}
	begin := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wrap(w).addCleanup(begun)
			next.ServeHTTP(w, r)
		})
	}
	var rest func() bool
	detach := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		if !w.(interface{ Detach(func() bool) bool }).Detach(rest) {
			rest()
		}
	})
	drain := NewDrain()
	chain := Chain(detach, AuditID, Recover(slog.New(slog.NewTextHandler(&log, nil)), writeError),
		RequestInfo(byName, writeError), begin, drain.Filter(writeError))
	watch := func() *http.Request {
		r := httptest.NewRequest("GET", "/api/v1/pods?watch=1", nil)
		r.Header.Set(auditIDHeader, "an-id")
		return r
	}
	active := func() int { return drain.mu.active + len(drain.mu.longRunning) }

	t.Run("without support for Detach", func(t *testing.T) {
		rest = func() bool {
			if len(begun.seen) != 0 || active() != 2 {
				t.Errorf("cleaned up too early: %v", begun.seen)
			}
			return true
		}
		chain.ServeHTTP(httptest.NewRecorder(), watch())
		if len(begun.seen) != 1 || begun.seen[0] != nil || active() != 0 {
			t.Errorf("not cleaned up: %v", begun.seen)
		}
	})
	for name, reason := range map[string]any{"completed": nil, "panicked": "a reason", "aborted": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			begun.seen = nil
			done := false
			rest = func() bool {
				if done && reason != nil {
					panic(reason)
				}
				return done
			}
			w := &detaching{ResponseRecorder: httptest.NewRecorder()}
			chain.ServeHTTP(w, watch())
			if len(begun.seen) != 0 || active() != 2 {
				t.Errorf("cleaned up when the handler returned: %v", begun.seen)
			}
			if w.rest(); len(begun.seen) != 0 || active() != 2 {
				t.Errorf("cleaned up after the first call of the detached function: %v", begun.seen)
			}
			done = true
			if got := recovered(w.rest); got != nil && (reason == nil || got != http.ErrAbortHandler) || got == nil && reason != nil {
				t.Errorf("the detached function panicked with %v", got)
			}
			if len(begun.seen) != 1 || begun.seen[0] != reason || active() != 0 {
				t.Errorf("cleanups after the last call of the detached function: %v", begun.seen)
			}
		})
	}
	if text := log.String(); strings.Count(text, "a reason") != 1 || strings.Contains(text, http.ErrAbortHandler.Error()) || !strings.Contains(text, "path=/api/v1/pods audit-ID=an-id") {
		t.Errorf("logged %s", text)
	}
}

func recovered(do func() bool) (reason any) {
	defer func() { reason = recover() }()
	do()
	return nil
}

// TestCancelled checks that a long-running request is canceled through the ResponseWriter if the
// ResponseWriter has a Cancel method.
func TestCancelled(t *testing.T) {
	t.Parallel()
	drain := NewDrain()
	w := &cancelling{ResponseRecorder: httptest.NewRecorder()}
	Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Done() != nil {
			t.Error("the request has a context of its own")
		}
		drain.EndLongRunning()
		request.Cancel(r.Context(), http.ErrHandlerTimeout)
	}), AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError), drain.Filter(writeError)).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/pods?watch=1", nil))
	if len(w.causes) != 2 || w.causes[0] != ErrStopping || w.causes[1] != http.ErrHandlerTimeout {
		t.Errorf("canceled because of %v", w.causes)
	}
}

// cancelling is a ResponseWriter that records the causes of cancellations.
type cancelling struct {
	*httptest.ResponseRecorder
	causes []error
}

func (c *cancelling) Cancel(cause error) { c.causes = append(c.causes, cause) }
