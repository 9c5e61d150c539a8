package filters

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mainstay.dev/mainstay/internal/request"
)

// blocking is a handler that waits for release or the end of the request.
type blocking struct {
	entered chan struct{}
	release chan struct{}
}

func newBlocking() *blocking { return &blocking{make(chan struct{}, 100), make(chan struct{})} }

func (b *blocking) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	b.entered <- struct{}{}
	select {
	case <-b.release:
	case <-r.Context().Done():
	}
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, path string
		user               string
		code               int
	}{
		{"a second read", "GET", "/api/v1/pods", "", 429},
		{"a write has its own limit", "POST", "/api/v1/pods", "", 200},
		{"a watch is not limited", "GET", "/api/v1/pods?watch=true", "", 200},
		{"an administrator is not limited", "GET", "/api/v1/pods", request.GroupMasters, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first := newBlocking()
			final := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Block") != "" {
					first.ServeHTTP(w, r)
				}
			})
			chain := Chain(final, AuditID, RequestInfo(byName, writeError), as(&request.User{Groups: []string{tt.user}}), MaxInFlight(1, 1, newMetrics(), writeError))
			done := make(chan struct{})
			go func() {
				defer close(done)
				r := httptest.NewRequest("GET", "/api/v1/nodes", nil)
				r.Header.Set("Block", "yes")
				chain.ServeHTTP(httptest.NewRecorder(), r)
			}()
			<-first.entered
			got := httptest.NewRecorder()
			chain.ServeHTTP(got, httptest.NewRequest(tt.method, tt.path, nil))
			if got.Code != tt.code {
				t.Errorf("response %d, want %d", got.Code, tt.code)
			}
			if tt.code == 429 && got.Header().Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", got.Header().Get("Retry-After"))
			}
			close(first.release)
			<-done
			after := httptest.NewRecorder()
			chain.ServeHTTP(after, httptest.NewRequest("GET", "/api/v1/pods", nil))
			if after.Code != 200 {
				t.Errorf("after the first request has ended: %d", after.Code)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drain, handler := NewDrain(), newBlocking()
		chain := Chain(handler, AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError), drain.Filter(writeError))
		send := func(path string) chan *httptest.ResponseRecorder {
			answered := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				recorder := httptest.NewRecorder()
				chain.ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
				answered <- recorder
			}()
			synctest.Wait()
			return answered
		}
		short, watch := send("/api/v1/pods/a"), send("/api/v1/pods?watch=1")

		drain.SendRetryAfter()
		if got := <-send("/api/v1/pods/b"); got.Code != 429 || got.Header().Get("Retry-After") != "5" || got.Header().Get("Connection") != "close" {
			t.Errorf("after SendRetryAfter: %d %v", got.Code, got.Header())
		}
		var probes []chan *httptest.ResponseRecorder
		for _, path := range []string{"/readyz", "/livez/ping", "/healthz", "/metrics/slis"} {
			probe := send(path)
			if len(probe) != 0 {
				t.Errorf("%s was rejected during the shutdown", path)
			}
			probes = append(probes, probe)
		}

		drain.RejectNew()
		if got := <-send("/readyz"); got.Code != 503 || got.Header().Get("Retry-After") != "1" {
			t.Errorf("after RejectNew: %d %v", got.Code, got.Header())
		}
		drain.EndLongRunning()
		<-watch
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := drain.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait while a request is active: %v", err)
		}
		close(handler.release)
		<-short
		for _, probe := range probes {
			<-probe
		}
		if err := drain.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		drain.RejectNew() // a second call has no effect
	})
}

// TestEndWatches checks that watches end gradually, and that other requests continue.
func TestEndWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drain := NewDrain()
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		chain := Chain(handler, AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError), drain.Filter(writeError))
		drain.EndWatches(t.Context(), time.Second) // there are no watches
		var ended atomic.Int32
		for range 1000 {
			go func() {
				chain.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/v1/pods?watch=1", nil))
				ended.Add(1)
			}()
		}
		logs := make(chan struct{})
		go func() {
			chain.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", nil))
			close(logs)
		}()
		synctest.Wait()
		began := time.Now()
		done := make(chan struct{})
		go func() { drain.EndWatches(t.Context(), time.Minute); close(done) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := ended.Load(); n < 199 || n > 202 {
			t.Errorf("%d watches have ended after 1s; want 200", n)
		}
		<-done
		synctest.Wait()
		if took := time.Since(began); ended.Load() != 1000 || took > 6*time.Second {
			t.Errorf("%d watches have ended after %s", ended.Load(), took)
		}
		select {
		case <-logs:
			t.Error("another long-running request was canceled")
		default:
		}
		drain.EndLongRunning()
		<-logs
	})
}
