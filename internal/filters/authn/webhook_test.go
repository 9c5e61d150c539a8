package authn

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"mainstay.dev/mainstay/internal/request"
)

// TestWebhookTokens checks the requests to a webhook, the handling of its responses, and which
// responses are cached.
func TestWebhookTokens(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var answer atomic.Pointer[any] // a status code or a body
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.APIVersion != "authentication.k8s.io/v1beta1" || review.Spec.Token == "" || len(review.Spec.Audiences) == 0 {
			t.Errorf("review %+v, %v", review, err)
		}
		switch answer := (*answer.Load()).(type) {
		case int:
			w.WriteHeader(answer)
		case string:
			_, _ = w.Write([]byte(answer))
		}
	}))
	t.Cleanup(server.Close)
	const jane = `{"status":{"authenticated":true,"user":{"username":"jane","uid":"u","groups":["devs"],"extra":{"a":["b"]}}`
	user := &request.User{Name: "jane", UID: "u", Groups: []string{"devs"}, Extra: map[string][]string{"a": {"b"}}}
	tests := []struct {
		name    string
		answer  any
		wanted  []string
		want    *request.User
		granted []string
		err     string
		calls   int32 // webhook calls for two requests
	}{
		{"a user", jane + `}}`, nil, user, []string{"api"}, "", 1},
		{"for an audience", jane + `,"audiences":["x"]}}`, []string{"y", "x"}, user, []string{"x"}, "", 1},
		{"for an audience, without audiences in the response", jane + `}}`, []string{"x"}, nil, nil, "", 1},
		{"for another audience", jane + `,"audiences":["x"]}}`, nil, nil, nil, "", 1},
		{"not authenticated", `{"status":{}}`, nil, nil, nil, "", 1},
		{"not authenticated, with an error", `{"status":{"error":"expired"}}`, nil, nil, nil, "expired", 1},
		{"an error status", 403, nil, nil, nil, "403 Forbidden", 2},
		{"nonsense", `x`, nil, nil, nil, "invalid character", 2},
	}
	for _, tt := range tests {
		calls.Store(0)
		answer.Store(&tt.answer)
		verifier := NewWebhookTokens(WebhookConfig{Client: server.Client(), URL: server.URL, Version: "v1beta1", CacheTTL: time.Hour}).Verifier([]string{"api"})
		for range 2 {
			got, granted, err := verifier.Verify(t.Context(), "token", tt.wanted)
			if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.granted, granted); diff != "" || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q (-want +got):\n%s", tt.name, err, tt.err, diff)
			}
		}
		if calls.Load() != tt.calls {
			t.Errorf("%s: %d calls, want %d", tt.name, calls.Load(), tt.calls)
		}
	}
}

// TestWebhookCacheKey checks that the cached result for a token is not used for another token or
// for other audiences, even if they contain special characters.
func TestWebhookCacheKey(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		asked = append(asked, review.Spec.Token)
		_, _ = w.Write([]byte(`{"status":{}}`))
	}))
	t.Cleanup(server.Close)
	tokens := NewWebhookTokens(WebhookConfig{Client: server.Client(), URL: server.URL, Version: "v1", CacheTTL: time.Hour})
	for _, call := range []struct {
		token     string
		audiences []string
	}{{"a\x00b", []string{"c"}}, {"a", []string{"b", "c"}}, {"a", []string{"b\x00c"}}, {`a" "b`, []string{"c"}}} {
		_, _, _ = tokens.Verifier([]string{"api"}).Verify(t.Context(), call.token, call.audiences)
	}
	if len(asked) != 4 {
		t.Errorf("the webhook received %q; want 4 calls", asked)
	}
}
