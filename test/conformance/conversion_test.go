package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// TestConversionWebhooks replays conversations about resources with a conversion webhook. The test's webhook
// behaves like the webhook that was used for the recording.
func TestConversionWebhooks(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--watch-cache=false"}} {
		t.Run(strings.Join(flags, ","), func(t *testing.T) {
			t.Parallel()
			hook := httptest.NewTLSServer(http.HandlerFunc(recordedWebhook))
			defer hook.Close()
			srv := testserver.New(t, testserver.Options{Flags: append(flags, recordedFlags...)})
			replayer, err := NewReplayer(srv.RESTConfig())
			if err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(time.Minute)
			replayer.Again = func(_ context.Context, _ Step, status int) bool {
				// The recorder waited for definitions to be established.
				return status == http.StatusNotFound && time.Now().Before(deadline)
			}
			recording := readRecording(t, "webhook/conversion")
			verdict := newVerdict(t, "webhook/conversion")
			for _, scenario := range recording.Scenarios {
				verdict.check(t, replayer.Replay(t.Context(), withWebhook(scenario, hook), NewMemory()))
				if err := replayer.CleanUp(t.Context(), scenario); err != nil {
					t.Error(err)
				}
			}
			verdict.finish(t)
		})
	}
}

// recordedBundle matches the CA bundles in recorded bodies.
var recordedBundle = regexp.MustCompile(`"caBundle":\s*"[^"]*"`)

// othersBundle is part of a recorded CA bundle that does not belong to the recorder's webhook. This bundle is
// not replaced.
const othersBundle = "UJZakNDQVFpZ0F3SUJBZ0lJWnNTMWFYcVg2Ukl3Q2d"

// withWebhook replaces the address and CA bundle of the recorder's webhook in a scenario with those of hook.
func withWebhook(scenario Scenario, hook *httptest.Server) Scenario {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	bundle := []byte(`"caBundle":"` + base64.StdEncoding.EncodeToString(certificate) + `"`)
	host := []byte(strings.TrimPrefix(hook.URL, "https://"))
	live := func(body []byte) []byte {
		body = bytes.ReplaceAll(body, []byte("{webhook}"), host)
		return recordedBundle.ReplaceAllFunc(body, func(recorded []byte) []byte {
			if bytes.Contains(recorded, []byte(othersBundle)) {
				return recorded
			}
			return bundle
		})
	}
	out := Scenario{Name: scenario.Name}
	for _, step := range scenario.Steps {
		step.Request.Body, step.Response.Body = live(step.Request.Body), live(step.Response.Body)
		out.Steps = append(out.Steps, step)
	}
	return out
}

// recordedWebhook converts between v1, which has spec.hostPort, and v2, which has spec.host and spec.port.
// Depending on the URL path, it fails in a certain way instead.
func recordedWebhook(w http.ResponseWriter, r *http.Request) {
	var review struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Response   map[string]any `json:"response"`
		Request    struct {
			UID               string           `json:"uid"`
			DesiredAPIVersion string           `json:"desiredAPIVersion"`
			Objects           []map[string]any `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, object := range review.Request.Objects {
		recordedConversion(object, review.Request.DesiredAPIVersion)
		if r.URL.Path == "/convert-meta" {
			object["metadata"].(map[string]any)["name"] = "changed"
		}
	}
	result, objects := map[string]any{"status": "Success"}, review.Request.Objects
	switch r.URL.Path {
	case "/convert-fail":
		result, objects = map[string]any{"status": "Failure", "message": "cannot convert"}, nil
	case "/convert-short":
		objects = objects[1:]
	case "/http500":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"error":"boom"}`))
		return
	case "/garbage":
		_, _ = w.Write([]byte("hello"))
		return
	}
	review.Response = map[string]any{"uid": review.Request.UID, "result": result, "convertedObjects": objects}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": review.Response})
}

func recordedConversion(object map[string]any, to string) {
	from, _ := object["apiVersion"].(string)
	spec, _ := object["spec"].(map[string]any)
	object["apiVersion"] = to
	switch {
	case spec == nil || from == to:
	case strings.HasSuffix(to, "/v2"):
		joined, _ := spec["hostPort"].(string)
		host, port, _ := strings.Cut(joined, ":")
		object["spec"] = map[string]any{"host": host, "port": port}
	default:
		host, _ := spec["host"].(string)
		port, _ := spec["port"].(string)
		object["spec"] = map[string]any{"hostPort": host + ":" + port}
	}
}
