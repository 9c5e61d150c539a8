package request_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"mainstay.dev/mainstay/internal/request"
)

func newContext(t *testing.T) context.Context {
	r := httptest.NewRequest("GET", "/", nil)
	ctx := request.NewContext(t.Context(), &request.Info{}, request.Received(r.Context()))
	request.SetAudit(ctx, &request.Audit{})
	return ctx
}

func TestAnnotate(t *testing.T) {
	t.Parallel()
	ctx := newContext(t)
	if got := request.AnnotationsFrom(ctx); got != nil {
		t.Errorf("annotations before the first Annotate: %v", got)
	}
	for _, value := range []string{"1", "1"} {
		if err := request.Annotate(ctx, "a/b", value); err != nil {
			t.Fatal(err)
		}
	}
	if err := request.Annotate(ctx, "a/b", "2"); !errors.Is(err, request.ErrAnnotated) {
		t.Errorf("Annotate with a different value: %v", err)
	}
	if got := request.AnnotationsFrom(ctx); len(got) != 1 || got["a/b"] != "1" {
		t.Errorf("annotations %v", got)
	}
	if err := request.Annotate(t.Context(), "a/b", "outside a request"); err != nil {
		t.Error(err)
	}
	request.SetAudit(ctx, nil)
	if err := request.Annotate(ctx, "a/c", "not audited"); err != nil || request.AnnotationsFrom(ctx) != nil {
		t.Errorf("request without auditing: annotations %v, error %v", request.AnnotationsFrom(ctx), err)
	}
}

// TestAnnotationsAreBounded checks the limits on the number and size of annotations.
func TestAnnotationsAreBounded(t *testing.T) {
	t.Parallel()
	many := newContext(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				_ = request.Annotate(many, fmt.Sprintf("a/%d-%d", w, i), "x") // the last calls exceed the limit
			}
		})
	}
	wg.Wait()
	if got := len(request.AnnotationsFrom(many)); got != 256 {
		t.Errorf("%d annotations", got)
	}
	large := newContext(t)
	if err := request.Annotate(large, "a/large", strings.Repeat("x", 1<<20)); !errors.Is(err, request.ErrAnnotationsFull) {
		t.Errorf("a large annotation: %v", err)
	}
	if err := request.Annotate(large, "a/small", "x"); err != nil {
		t.Errorf("a small annotation after a large one: %v", err)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	ctx := newContext(t)
	if request.AuthenticationFrom(ctx) != nil || request.AuthenticationFrom(t.Context()) != nil {
		t.Error("AuthenticationFrom is not nil before SetAuthentication")
	}
	jane := &request.Authentication{User: &request.User{Name: "jane"}, Credential: request.CredentialToken, Audiences: []string{"api"}}
	request.SetAuthentication(ctx, jane)
	if request.UserFrom(ctx) != jane.User {
		t.Errorf("user %+v", request.UserFrom(ctx))
	}
	request.SetUser(ctx, &request.User{Name: "ann"})
	if request.UserFrom(ctx).Name != "ann" || request.AuthenticationFrom(ctx) != jane {
		t.Errorf("after SetUser: user %+v, authentication %+v", request.UserFrom(ctx), request.AuthenticationFrom(ctx))
	}
}

func TestLongRunning(t *testing.T) {
	t.Parallel()
	ctx := newContext(t)
	var cause error
	cancel := func(err error) { cause = err }
	request.SetLongRunning(t.Context(), cancel)
	if request.LongRunning(ctx) || request.LongRunning(t.Context()) {
		t.Error("LongRunning returns true before SetLongRunning")
	}
	request.Cancel(ctx, context.Canceled)
	request.Cancel(t.Context(), context.Canceled)
	if cause != nil {
		t.Error("Cancel ended a request that is not long-running")
	}
	if request.SetLongRunning(ctx, cancel); !request.LongRunning(ctx) {
		t.Error("LongRunning returns false after SetLongRunning")
	}
	if request.Cancel(ctx, context.DeadlineExceeded); cause != context.DeadlineExceeded {
		t.Errorf("canceled because of %v", cause)
	}
}

func TestWatchInitialized(t *testing.T) {
	t.Parallel()
	ctx := newContext(t)
	request.WatchInitialized(ctx)
	calls := 0
	request.OnWatchInitialized(ctx, func() { calls++ })
	for range 2 {
		request.WatchInitialized(ctx)
	}
	request.WatchInitialized(t.Context())
	if calls != 1 {
		t.Errorf("called %d times", calls)
	}
}
