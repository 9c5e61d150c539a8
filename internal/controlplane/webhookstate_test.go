package controlplane

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// await repeats a request until the response contains a text.
func await(t *testing.T, c *ControlPlane, method, path, body, text string) {
	t.Helper()
	var answer string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, answer = send(t, c, method, path, body); strings.Contains(answer, text) {
			return
		}
	}
	t.Fatalf("%s %s: %.500s\nwant %s", method, path, answer, text)
}

// TestWebhookState checks that a webhook that keeps failing is reported in the state of admission
// and in an event of its configuration, which the webhook cannot reject, and that its recovery is
// reported.
func TestWebhookState(t *testing.T) {
	t.Parallel()
	var answers atomic.Bool
	configuration := configured(t, func(w http.ResponseWriter, r *http.Request) {
		if !answers.Load() {
			http.Error(w, "out of order", http.StatusBadGateway)
			return
		}
		reject(w, r)
	})
	c := newPlane(t, newEnv(t), "/webhooks")
	expect(t, c, "POST", webhookConfigurations, configuration("all", "*/*"), 201, "")
	const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a"}}`
	state := func() (state AdmissionState) {
		_, body := send(t, c, "GET", AdmissionPath, "")
		if err := json.Unmarshal([]byte(body), &state); err != nil || len(state.Webhooks) != 1 || len(state.Plugins) != len(AdmissionPlugins()) {
			t.Fatalf("read the admission state: %v: %s", err, body)
		}
		return state
	}
	if s := state().Webhooks[0]; s.CircuitOpen || s.Failures != 0 || s.Kind != "ValidatingWebhookConfiguration" || s.Configuration != "all" || s.Webhook != "never.example.com" {
		t.Errorf("state of the webhook before the first call: %+v", s)
	}
	await(t, c, "POST", configMapsOfDefault, configMap, "in a row and is not called again")
	if s := state().Webhooks[0]; !s.CircuitOpen || s.Failures < 5 || !strings.Contains(s.LastFailure, "out of order") {
		t.Errorf("state of the webhook after failures: %+v", s)
	}
	events := "/api/v1/events?fieldSelector=involvedObject.kind=ValidatingWebhookConfiguration,involvedObject.name=all,reason="
	await(t, c, "GET", events+"WebhookSpared", "", "webhook never.example.com has failed")
	answers.Store(true)
	await(t, c, "POST", configMapsOfDefault, configMap, `denied the request: never`)
	await(t, c, "GET", events+"WebhookAnswers", "", "webhook never.example.com answers again")
	if s := state().Webhooks[0]; s.CircuitOpen || s.Failures != 0 || s.LastFailure != "" {
		t.Errorf("state of the webhook after its recovery: %+v", s)
	}
}
