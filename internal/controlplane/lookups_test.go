package controlplane

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// askedBackend counts how often the requests of a test ask how new it is. With etcd, each
// time is a round trip to a quorum.
type askedBackend struct {
	kv.Backend
	asked atomic.Int64
}

type askingRequest struct{}

func (b *askedBackend) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	if ctx.Value(askingRequest{}) != nil { // not the server's own
		b.asked.Add(1)
	}
	return b.Backend.CurrentRevision(ctx)
}

// TestLookupsShareARevision checks that all lookups of admission for a pod use the newest revision
// at the start of a pass, which is requested once.
func TestLookupsShareARevision(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	backend := &askedBackend{Backend: env.Storage.Backend}
	env.Storage.Backend = backend
	plane, err := New(env, "/registry", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Close()
	create := func(path, body string, code int) {
		t.Helper()
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		plane.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), askingRequest{}, true)))
		if w.Code != code {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	create("/api/v1/namespaces", `{"metadata":{"name":"n"}}`, http.StatusCreated)
	const pods = "/api/v1/namespaces/n/pods"
	create(pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, http.StatusCreated) // caches are loaded
	backend.asked.Store(0)
	create(pods, `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, http.StatusCreated)
	if asked := backend.asked.Load(); asked != 2 {
		t.Errorf("the store was asked %d times how new it is, not once in each pass of admission", asked)
	}
	// A write is effective when it returns.
	create("/api/v1/namespaces/n/limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`, http.StatusCreated)
	create(pods, `{"metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"2"}}}]}}`, http.StatusForbidden)
}
