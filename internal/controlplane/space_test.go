package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// fullBackend rejects writes and fails health checks while it is full.
type fullBackend struct {
	kv.Backend
	full atomic.Bool
}

func (b *fullBackend) err() error {
	if b.full.Load() {
		return fmt.Errorf("test: %w", kv.ErrNoSpace)
	}
	return nil
}

func (b *fullBackend) Commit(ctx context.Context, ops ...kv.Op) (kv.CommitResult, error) {
	if err := b.err(); err != nil {
		return kv.CommitResult{}, err
	}
	return b.Backend.Commit(ctx, ops...)
}

func (b *fullBackend) Health(ctx context.Context) error {
	if err := b.err(); err != nil {
		return err
	}
	return b.Backend.Health(ctx)
}

// TestOpenWithoutSpace checks that a control plane opens even if missing default objects cannot be
// written, and that it writes them when space becomes available.
func TestOpenWithoutSpace(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	backend := &fullBackend{Backend: env.Storage.Backend}
	backend.full.Store(true)
	env.Storage.Backend = backend
	c := newPlane(t, env, "/registry")
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := func(code int, method, path, body string) {
		t.Helper()
		if got, answer := send(t, c, method, path, body); got != code {
			t.Errorf("%s %s: %d %s, want %d", method, path, got, answer, code)
		}
	}
	want(http.StatusOK, "GET", "/api/v1/namespaces", "")
	want(http.StatusOK, "GET", "/livez", "")
	want(http.StatusInternalServerError, "GET", "/readyz", "")
	want(http.StatusInsufficientStorage, "POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	backend.full.Store(false)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		namespace, _ := send(t, c, "GET", "/api/v1/namespaces/kube-system", "")
		published, _ := send(t, c, "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "")
		ready, checks := send(t, c, "GET", "/readyz", "")
		if namespace == http.StatusOK && published == http.StatusOK && ready == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("default objects are missing: %d, %d; %s", namespace, published, checks)
		}
	}
}
