package http2

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAnswer checks that the response of Answer reaches the client while the handler is still running, that the
// handler cannot add data to the response, and that the connection serves other requests.
func TestAnswer(t *testing.T) {
	t.Parallel()
	answered, written := make(chan struct{}), make(chan error, 1)
	s := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			return
		}
		w.Header().Set("X-Handler", "its own")
		done := make(chan error)
		go func() {
			done <- w.(interface {
				Answer(int, http.Header, []byte) error
			}).Answer(504, http.Header{"X-Answer": {"yes"}}, []byte("too late"))
		}()
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-answered
		_, err := io.WriteString(w, "more")
		written <- err
	}), true, nil)
	client := s.client(t)
	resp, err := client.Post(s.url, "text/plain", strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 504 || string(body) != "too late" || resp.Header.Get("X-Answer") != "yes" || resp.Header.Get("X-Handler") != "" {
		t.Errorf("got %d %q with %v, %v", resp.StatusCode, body, resp.Header, err)
	}
	if other, err := client.Get(s.url + "/other"); err != nil || other.StatusCode != 200 {
		t.Errorf("concurrent request: %v", err)
	} else {
		other.Body.Close()
	}
	close(answered)
	if err := <-written; err == nil {
		t.Error("the handler was able to write after Answer")
	}
}
