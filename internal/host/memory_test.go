package host

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/test/testserver"
)

// TestMemoryLimit checks that while a large incomplete request body occupies the memory for requests, another
// large request is rejected but small requests succeed. Afterwards, a large request succeeds.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Limits: LimitsConfig{Memory: memory.MinLimit}})
	const maps = "/api/v1/namespaces/default/configmaps"
	post := func(body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+maps, body)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		return s.admin.Do(r)
	}
	large := func(name string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":%q},"data":{"a":%q},"unknown":%q}`, name, strings.Repeat("x", 900<<10), strings.Repeat("y", 2_000_000))
	}
	code := func(body []byte) int {
		t.Helper()
		resp, err := post(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode == http.StatusTooManyRequests && (resp.Header.Get("Retry-After") != "1" || !strings.Contains(string(text), "no memory for a request of this size")) {
			t.Errorf("%s, Retry-After %q: %v", text, resp.Header.Get("Retry-After"), err)
		}
		return resp.StatusCode
	}
	held := func() int64 {
		t.Helper()
		_, metrics := fetch(t, s.admin, s.URL+"/metrics")
		var bytes float64
		_, text, _ := strings.Cut(metrics, "\nmainstay_request_memory_bytes ")
		if _, err := fmt.Sscan(text, &bytes); err != nil {
			t.Fatalf("parse the metric of reserved memory: %v", err)
		}
		return int64(bytes)
	}

	endless, write := io.Pipe()
	answered := make(chan int, 1)
	go func() { // returns after the end of the body
		resp, err := post(endless)
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	first := large("first")
	if _, err := write.Write(first[:len(first)-1]); err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, 2*time.Minute, func() error {
		if bytes := held(); bytes < 8<<20 {
			return fmt.Errorf("%d bytes are reserved", bytes)
		}
		return nil
	})
	if got := code(large("second")); got != http.StatusTooManyRequests {
		t.Errorf("a large request while another one occupies the memory: %d", got)
	}
	if got := code([]byte(`{"metadata":{"name":"small"}}`)); got != http.StatusCreated {
		t.Errorf("a small request: %d", got)
	}
	if _, err := write.Write(first[len(first)-1:]); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if got := <-answered; got != http.StatusCreated {
		t.Errorf("the request that occupied the memory: %d", got)
	}
	if got := code(large("second")); got != http.StatusCreated {
		t.Errorf("a large request after the memory is free again: %d", got)
	}
	if bytes := held(); bytes != 0 {
		t.Errorf("%d bytes are reserved without requests", bytes)
	}
}
