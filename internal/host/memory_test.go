package host

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/test/testserver"
)

// TestMemoryLimit checks that while a large incomplete request body occupies the memory for requests, another
// large request is rejected but small requests succeed. A small body is also rejected if its object needs much
// memory. Afterwards, large requests succeed.
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

	const pods = "/api/v1/namespaces/default/pods"
	s.must(t, "POST", pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`)

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
		if bytes := held(); bytes < memory.MinLimit/4 {
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
	testSmallBodies(t, s, pods)
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

// testSmallBodies checks that small bodies with thousands of empty structs or small maps are rejected while no
// memory is available.
func testSmallBodies(t *testing.T, s *running, pods string) {
	t.Helper()
	elements := func(element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", 20_000/len(element)), ",") + "]"
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"initContainers":` + elements("{}") + `}}`
	var requests sync.WaitGroup
	for _, tt := range []struct{ name, method, path, mediaType, body string }{
		{"create", "POST", pods, "application/json", pod},
		{"create with an unknown field", "POST", pods, "application/json", strings.Replace(pod, `"spec"`, `"unknown":1,"spec"`, 1)},
		{"create in YAML", "POST", pods, "application/yaml", pod},
		{"create custom object", "POST", controlPlanePath, "application/json", `{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"a"},"x":` + elements(`{"a":0}`) + `}`},
		{"update", "PUT", pods + "/a", "application/json", pod},
		{"merge patch", "PATCH", pods + "/a", "application/merge-patch+json", pod},
		{"strategic merge patch", "PATCH", pods + "/a", "application/strategic-merge-patch+json", pod},
		{"apply", "PATCH", pods + "/a?fieldManager=a", "application/apply-patch+yaml", pod},
		{"JSON patch", "PATCH", pods + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/initContainers","value":` + elements("{}") + `}]`},
	} {
		requests.Go(func() {
			code, text := s.send(t, tt.method, tt.path, tt.body, "Content-Type", tt.mediaType)
			if code != http.StatusTooManyRequests || !strings.Contains(text, "no memory for a request of this size") {
				t.Errorf("%s: response %d %.300s, want 429", tt.name, code, text)
			}
		})
	}
	requests.Wait()
}
