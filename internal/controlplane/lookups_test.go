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

// countingBackend counts the reads of the current revision that are caused by requests of a test. With etcd,
// each read is a round trip to a quorum.
type countingBackend struct {
	kv.Backend
	reads atomic.Int64
}

type countedRequest struct{}

func (b *countingBackend) CurrentRevision(ctx context.Context) (kv.Revision, error) {
	if ctx.Value(countedRequest{}) != nil { // ignore requests of the server itself
		b.reads.Add(1)
	}
	return b.Backend.CurrentRevision(ctx)
}

// TestLookupsShareARevision checks that all lookups in an admission pass for a pod use the revision that is
// newest at the start of the pass, and that this revision is read only once.
func TestLookupsShareARevision(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	backend := &countingBackend{Backend: env.Storage.Backend}
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
		plane.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), countedRequest{}, true)))
		if w.Code != code {
			t.Fatalf("POST %s: %d %s, want code %d", path, w.Code, w.Body, code)
		}
	}
	create("/api/v1/namespaces", `{"metadata":{"name":"n"}}`, http.StatusCreated)
	const pods = "/api/v1/namespaces/n/pods"
	create(pods, `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, http.StatusCreated) // load the caches
	backend.reads.Store(0)
	create(pods, `{"metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, http.StatusCreated)
	if reads := backend.reads.Load(); reads != 2 {
		t.Errorf("the current revision was read %d times, want once for each pass of admission", reads)
	}
	// A write has taken effect by the time it returns.
	create("/api/v1/namespaces/n/limitranges", `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`, http.StatusCreated)
	create(pods, `{"metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"2"}}}]}}`, http.StatusForbidden)
}
