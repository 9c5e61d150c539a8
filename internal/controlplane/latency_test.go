package controlplane

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/request"
)

// TestLatencies checks the stages whose durations are measured, by verb.
func TestLatencies(t *testing.T) {
	t.Parallel()
	var stages []string // of the last request
	c, err := New(newEnv(t), "/latencies", Options{Filter: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request.SetAudit(r.Context(), &request.Audit{}) // some stages are measured for audited requests only
			next.ServeHTTP(w, r)
			stages = slices.Sorted(maps.Keys(maps.Collect(request.Latencies(r.Context()))))
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	validating := configured(t, (&engine{reviews: map[string]int{}}).ServeHTTP)("all", "configmaps")
	mutating := strings.ReplaceAll(validating, "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
	expect(t, c, "POST", webhookConfigurations, validating, 201, "")
	expect(t, c, "POST", strings.ReplaceAll(webhookConfigurations, "validating", "mutating"), mutating, 201, "")
	const filters = "authentication authorization "
	for _, step := range []struct{ method, path, body, want string }{
		{"POST", configMapsOfDefault, `{"metadata":{"name":"a"}}`, filters + "etcd mutating-webhook response-write serialize-response-object validating-webhook"},
		{"GET", configMapsOfDefault + "/a", "", filters + "response-write serialize-response-object"},
		{"GET", configMapsOfDefault, "", filters + "response-write serialize-response-object"},
		{"DELETE", configMapsOfDefault + "/a", "", filters + "etcd mutating-webhook response-write validating-webhook"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), step.method, step.path, strings.NewReader(step.body))
		r.Header.Set("Content-Type", "application/json")
		c.ServeHTTP(w, r)
		if got := strings.Join(stages, " "); w.Code >= 300 || got != step.want {
			t.Errorf("%s %s: %d with the stages %s, want %s", step.method, step.path, w.Code, got, step.want)
		}
	}
}
