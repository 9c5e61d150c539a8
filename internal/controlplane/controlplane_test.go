package controlplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authn/serviceaccount"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/telemetry"
)

// administrator authenticates every request as a member of system:masters.
type administrator struct{}

func (administrator) Authenticate(*http.Request) (*request.Authentication, error) {
	return &request.Authentication{User: &request.User{Name: "admin", Groups: []string{request.GroupMasters}}}, nil
}

// newEnv returns the Env of a host without a listener. Its store is in memory, and is closed when
// the test ends.
func newEnv(t testing.TB) *Env {
	t.Helper()
	backend, err := embedded.Open(embedded.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	return newEnvOn(t, backend)
}

// newEnvOn is like newEnv, but uses the given store. The store is closed when the test ends.
func newEnvOn(t testing.TB, backend kv.Backend) *Env {
	t.Helper()
	registry := prometheus.NewRegistry()
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: backend, Prefix: "/"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- feed.Run(ctx) }()
	for !feed.Running() { // until then, reads would use the store instead of the feed
		runtime.Gosched()
	}
	t.Cleanup(func() {
		cancel()
		<-done
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	metrics, err := NewMetrics(registry, "host")
	if err != nil {
		t.Fatal(err)
	}
	encodings, err := codec.NewEncodingCache(codec.EncodingCacheConfig{})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeys(signer)
	if err != nil {
		t.Fatal(err)
	}
	return &Env{
		Storage: Storage{Backend: backend, Feed: feed, Encodings: encodings}, TypeConverter: openapi.NewTypeConverter(),
		Identity: Identity{
			Authenticator: administrator{}, TokenKeys: keys,
			ClusterAuthentication: func() (map[string]string, error) { return map[string]string{"client-ca-file": ""}, nil },
		},
		Network:   Network{Address: "127.0.0.1:6443", PublicURL: "https://127.0.0.1:6443", Port: 6443},
		Shutdown:  Shutdown{Drain: filters.NewDrain(), Tunnels: t.Context()},
		Health:    Health{Metrics: telemetry.NewHealthMetrics(prometheus.NewRegistry())},
		Telemetry: Telemetry{Requests: telemetry.NewRequests(registry), Metrics: metrics, Logger: slog.New(slog.DiscardHandler)},
	}
}

func newPlane(t testing.TB, env *Env, prefix string) *ControlPlane {
	t.Helper()
	c, err := New(env, prefix, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// send sends a request and returns the status code and the body of the response.
func send(t testing.TB, c *ControlPlane, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
	"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

// TestThreeOnOneStore checks that control planes with a common store and feed never see each
// other's objects, events or definitions.
func TestThreeOnOneStore(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	var planes []*ControlPlane
	for n := range 3 {
		planes = append(planes, newPlane(t, env, fmt.Sprintf("/planes/%d", n)))
	}
	for n, plane := range planes {
		body := fmt.Sprintf(`{"metadata":{"name":"only-%d"},"data":{"plane":"%d"}}`, n, n)
		if code, answer := send(t, plane, "POST", "/api/v1/namespaces/default/configmaps", body); code != 201 {
			t.Fatalf("plane %d: %d %s", n, code, answer)
		}
	}
	if code, answer := send(t, planes[1], "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets); code != 201 {
		t.Fatalf("create the definition: %d %s", code, answer)
	}
	for n, plane := range planes {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		_, answer := send(t, plane, "GET", "/api/v1/namespaces/default/configmaps", "")
		if err := json.Unmarshal([]byte(answer), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Metadata.Name != fmt.Sprintf("only-%d", n) {
			t.Errorf("plane %d lists %+v", n, list.Items)
		}
		if code, _ := send(t, plane, "GET", fmt.Sprintf("/api/v1/namespaces/default/configmaps/only-%d", (n+1)%3), ""); code != 404 {
			t.Errorf("plane %d has an object of another: %d", n, code)
		}
		_, crds := send(t, plane, "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "")
		if has := strings.Contains(crds, "widgets.example.com"); has != (n == 1) {
			t.Errorf("plane %d has the definition: %t", n, has)
		}
		_, watched := send(t, plane, "GET", "/api/v1/configmaps?watch=true&resourceVersion=0&timeoutSeconds=1", "")
		if got := strings.Count(watched, `"only-`); got != 1 || !strings.Contains(watched, fmt.Sprintf("only-%d", n)) {
			t.Errorf("a watch on plane %d: %s", n, watched)
		}
	}
}

// TestOpensWithTheFirstRequest checks that a control plane is not open before the first request,
// and that concurrent first requests are all served.
func TestOpensWithTheFirstRequest(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, newEnv(t), "/one")
	if plane.opened.Load() != nil {
		t.Error("the control plane is open before the first request")
	}
	codes := make(chan int, 8)
	for range cap(codes) {
		go func() {
			code, _ := send(t, plane, "GET", "/api/v1/namespaces/kube-system", "")
			codes <- code
		}()
	}
	for range cap(codes) {
		if code := <-codes; code != 200 {
			t.Errorf("one of the first requests: code %d, want 200", code)
		}
	}
}

// TestOpenFailure checks that a request receives a Status if the control plane cannot be opened, and
// that a later request opens it.
func TestOpenFailure(t *testing.T) {
	t.Parallel()
	plane := newPlane(t, newEnv(t), "/one")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := plane.Open(gone); err == nil {
		t.Error("a canceled request has opened the control plane")
	}
	w := httptest.NewRecorder()
	plane.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", "/api/v1/namespaces", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"kind":"Status"`) {
		t.Errorf("canceled request: %d %s, want code 503 with a Status", w.Code, w.Body)
	}
	if code, body := send(t, plane, "GET", "/api/v1/namespaces", ""); code != 200 {
		t.Errorf("request after the canceled one: %d %s, want code 200", code, body)
	}
	plane.Close()
	closed := newPlane(t, plane.env, "/two")
	closed.Close()
	if err := closed.Open(t.Context()); err == nil {
		t.Error("Open succeeded after Close")
	}
}

// BenchmarkOpen measures the time, memory and goroutines that an additional control plane costs a
// host, before its first request ("rest") and after it ("used").
func BenchmarkOpen(b *testing.B) {
	for _, used := range []bool{false, true} {
		name := "rest"
		if used {
			name = "used"
		}
		b.Run(name, func(b *testing.B) {
			env := newEnv(b)
			first := newPlane(b, env, "/first") // initializes shared state
			send(b, first, "GET", "/api/v1/namespaces", "")
			before, goroutines := heap(), runtime.NumGoroutine()
			var planes []*ControlPlane
			for b.Loop() {
				plane, err := New(env, fmt.Sprintf("/planes/%d", len(planes)), Options{})
				if err != nil {
					b.Fatal(err)
				}
				planes = append(planes, plane)
				if used {
					send(b, plane, "GET", "/api/v1/namespaces/default", "")
				}
			}
			b.StopTimer()
			n := float64(len(planes))
			b.ReportMetric(float64(heap()-before)/n, "heap-B/plane")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/plane")
			for _, plane := range planes {
				plane.Close()
			}
		})
	}
}

// heap returns the bytes in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
