package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
)

// TestStress runs many different requests concurrently, some of which are canceled, and shuts the
// server down in the middle.
func TestStress(t *testing.T) {
	const conns, users, rounds = 3, 6, 15
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		s := startServer(t, http.HandlerFunc(stressHandler), true, few(100))
		var wg sync.WaitGroup
		var ok, stopped atomic.Int64
		half := make(chan struct{}, conns*users)
		for range conns {
			c := s.client(t)
			for range users {
				wg.Go(func() {
					for i := range rounds {
						if err := stressOne(c, s.url); err == nil {
							ok.Add(1)
						} else if stopped.Load() == 0 {
							t.Error(err)
						}
						if i == rounds/2 {
							half <- struct{}{}
						}
					}
				})
			}
		}
		for range conns * users / 2 {
			<-half
		}
		stopped.Store(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		wg.Wait()
		t.Logf("%d responses", ok.Load())
	})
	for wait := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
		if time.Now().After(wait) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, were %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func stressHandler(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	switch r.URL.Path {
	case "/small":
		_, _ = io.WriteString(w, "small")
	case "/big":
		for range 20 {
			if _, err := w.Write(make([]byte, 50_000)); err != nil {
				return
			}
		}
	case "/echo":
		_, _ = io.Copy(w, r.Body)
	case "/ignore":
		w.WriteHeader(400)
	case "/stream":
		for i := range 50 {
			if _, err := fmt.Fprintf(w, "event %d\n", i); err != nil {
				return
			}
			if control.Flush() != nil {
				return
			}
		}
	case "/panic":
		panic(http.ErrAbortHandler)
	}
}

// stressOne sends a request and checks the response.
func stressOne(c *http.Client, url string) error {
	paths := []string{"/small", "/big", "/echo", "/ignore", "/stream", "/panic", "/cancel", "/slow"}
	path := paths[rand.IntN(len(paths))]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ask, method, body := path, "GET", io.Reader(nil)
	size := map[string]int{"/small": 5, "/big": 1_000_000, "/echo": 300_000, "/stream": 440, "/slow": 1_000_000}[path]
	switch path {
	case "/echo", "/ignore":
		method, body = "POST", strings.NewReader(strings.Repeat("x", 300_000))
	case "/cancel", "/slow":
		ask = "/big"
	}
	req, err := http.NewRequestWithContext(ctx, method, url+ask, body)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if path == "/panic" {
		if err == nil {
			_ = resp.Body.Close()
			return fmt.Errorf("%s: unexpected response", path)
		}
		if !errors.As(err, new(h2.StreamError)) {
			return err
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer resp.Body.Close()
	switch path {
	case "/cancel":
		_, _ = resp.Body.Read(make([]byte, 1000))
		cancel()
		return nil
	case "/slow":
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || int(n) != size {
		return fmt.Errorf("%s: %d of %d bytes: %w", path, n, size, err)
	}
	return nil
}
