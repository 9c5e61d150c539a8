package http2

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	h2 "golang.org/x/net/http2"
)

// TestDetach checks that a response continues after its handler has returned, and that its connection
// serves other requests.
func TestDetach(t *testing.T) {
	t.Parallel()
	next, ended := make(chan string), make(chan error, 1)
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		w.WriteHeader(http.StatusOK)
		flush(w)
		if r.URL.Path != "/detached" {
			return
		}
		ctx := r.Context()
		w.(*response).Detach(func() bool {
			for text := range next {
				_, _ = io.WriteString(w, text+"\n")
				flush(w)
			}
			ended <- context.Cause(ctx)
			return true
		})
	}), true, nil)
	c := s.client(t)
	response, err := c.Get(s.url + "/detached")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for _, text := range []string{"one", strings.Repeat("two", 1000)} {
		next <- text
		if !lines.Scan() || lines.Text() != text {
			t.Fatalf("read %q, %v; want %q", lines.Text(), lines.Err(), text)
		}
		other, err := c.Get(s.url + "/other")
		if err != nil || other.Header.Get("X-Path") != "/other" {
			t.Fatalf("concurrent request: %v", err)
		}
		other.Body.Close()
	}
	close(next)
	if cause := <-ended; cause != nil {
		t.Errorf("the context ended early: %v", cause)
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// TestDetachedEnds checks the other ways in which a detached response can end.
func TestDetachedEnds(t *testing.T) {
	t.Parallel()
	errEnough := errors.New("enough")
	logged := make(lines, 10)
	causes := make(chan error, 1)
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		flush(w)
		ctx, path := r.Context(), r.URL.Path
		detached := w.(*response)
		detached.Detach(func() bool {
			switch path {
			case "/panic":
				panic("a reason")
			case "/cancel":
				detached.Cancel(errEnough)
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return true
		})
		if path == "/both" {
			panic(http.ErrAbortHandler)
		}
	}), true, func(s *http.Server) { s.ErrorLog = log.New(logged, "", 0) })
	c := s.client(t)
	get := func(path string) (*http.Response, context.CancelFunc) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.Do(r)
		if err != nil {
			t.Fatalf("GET %s: %v", path, err)
		}
		return response, cancel
	}

	response, cancel := get("/cancel")
	if cause := <-causes; cause != errEnough {
		t.Errorf("cause of a canceled request: %v", cause)
	}
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Errorf("the response is not complete: %v", err)
	}
	cancel()

	_, cancel = get("/gone")
	cancel()
	if cause := <-causes; cause != context.Canceled {
		t.Errorf("cause after the client disconnected: %v", cause)
	}

	for _, path := range []string{"/panic", "/both"} {
		response, cancel := get(path)
		var reset h2.StreamError
		if _, err := io.ReadAll(response.Body); !errors.As(err, &reset) || reset.Code != h2.ErrCodeInternal {
			t.Errorf("%s: read %v, want a reset", path, err)
		}
		cancel()
	}
	if len(causes) > 0 {
		t.Error("the detached function was called although its handler panicked")
	}
	if line := <-logged; !strings.Contains(line, "a reason") {
		t.Errorf("logged %q, want the panic", line)
	}
}

// lines is an io.Writer that sends each log line to the channel.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}
