package controlplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// engine is the webhook of a policy engine. It allows all requests, or returns an error while it is down.
type engine struct {
	down atomic.Bool
	mu   sync.Mutex
	// reviews counts the reviews by operation and object, because controllers write other objects
	// concurrently.
	reviews map[string]int
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	var review struct {
		Request struct {
			UID, Operation, Namespace, Name string
			Resource                        struct{ Resource string }
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&review)
	about := &review.Request
	e.mu.Lock()
	e.reviews[strings.Join([]string{about.Operation, about.Resource.Resource, about.Namespace, about.Name}, " ")]++
	e.mu.Unlock()
	_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
}

// engineConfigurations contains webhook configurations that are similar to those of Kyverno and Gatekeeper.
// Their rules contain wildcards, their failure policies are Fail and Ignore, and they exclude the engine's own
// namespace.
const engineConfigurations = `
- kind: MutatingWebhookConfiguration
  metadata: {name: resource-mutating}
  webhooks:
  - name: mutate.engine.svc-fail
    clientConfig: CLIENT
    failurePolicy: Fail
    matchPolicy: Equivalent
    reinvocationPolicy: IfNeeded
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [engine]}]}
    rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*/*"], scope: "*"}]
    sideEffects: NoneOnDryRun
    timeoutSeconds: 10
    admissionReviewVersions: [v1]
- kind: ValidatingWebhookConfiguration
  metadata: {name: resource-validating}
  webhooks:
  - name: validate.engine.svc-ignore
    clientConfig: CLIENT
    failurePolicy: Ignore
    matchPolicy: Equivalent
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [engine]}]}
    rules:
    - {apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE, CONNECT], resources: ["*", pods/ephemeralcontainers, pods/exec, services/status], scope: "*"}
    sideEffects: NoneOnDryRun
    timeoutSeconds: 10
    admissionReviewVersions: [v1]
  - name: check-ignore-label.engine.sh
    clientConfig: CLIENT
    failurePolicy: Fail
    matchPolicy: Exact
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [engine]}]}
    rules: [{apiGroups: [""], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [namespaces], scope: "*"}]
    sideEffects: None
    timeoutSeconds: 3
    admissionReviewVersions: [v1, v1beta1]
`

// startEngine starts an engine and registers it as a webhook of a control plane.
func startEngine(t testing.TB, c *ControlPlane) *engine {
	t.Helper()
	e := &engine{reviews: map[string]int{}}
	var configuration struct {
		Webhooks []struct {
			ClientConfig json.RawMessage `json:"clientConfig"`
		} `json:"webhooks"`
	}
	if err := json.Unmarshal([]byte(configured(t, e.ServeHTTP)("x", "pods")), &configuration); err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	text := strings.ReplaceAll(engineConfigurations, "CLIENT", string(configuration.Webhooks[0].ClientConfig))
	if err := json.Unmarshal([]byte(jsonOf(t, text)), &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		path := webhookConfigurations
		if strings.Contains(string(one), "MutatingWebhook") {
			path = registration + "mutatingwebhookconfigurations"
		}
		if code, answer := send(t, c, "POST", path, string(one)); code != 201 {
			t.Fatalf("POST %s: %d %s", path, code, answer)
		}
	}
	return e
}

// TestPolicyEngines checks that webhooks configured like Kyverno's and Gatekeeper's receive all requests
// except requests for admission configuration, and that their own namespace remains usable while the webhooks
// are down.
func TestPolicyEngines(t *testing.T) {
	t.Parallel()
	c := newPlane(t, newEnv(t), "/engines")
	expect(t, c, "POST", "/api/v1/namespaces", `{"metadata":{"name":"engine"}}`, 201, "")
	e := startEngine(t, c)
	expect(t, c, "POST", configMapsOfDefault, configMap("a", ""), 201, "")
	expect(t, c, "POST", "/api/v1/namespaces", `{"metadata":{"name":"new"}}`, 201, "")
	expect(t, c, "DELETE", configMapsOfDefault+"/a", "", 200, "")
	expect(t, c, "POST", "/api/v1/namespaces/engine/configmaps", configMap("a", ""), 201, "")
	expect(t, c, "POST", validatingPolicies, policyBody(t, "p", `validations: [{expression: "true"}]`), 201, "")
	e.mu.Lock()
	for about, want := range map[string]int{
		"CREATE configmaps default a": 2, "CREATE namespaces new new": 3, "DELETE configmaps default a": 1,
		"CREATE configmaps engine a": 0, "CREATE validatingadmissionpolicies  p": 0,
	} {
		if e.reviews[about] != want {
			t.Errorf("%s: %d reviews, want %d", about, e.reviews[about], want)
		}
	}
	e.mu.Unlock()
	e.down.Store(true)
	expect(t, c, "POST", configMapsOfDefault, configMap("b", ""), 500, `failed calling webhook \"mutate.engine.svc-fail\"`)
	expect(t, c, "POST", "/api/v1/namespaces/engine/configmaps", configMap("b", ""), 201, "")
	expect(t, c, "DELETE", "/api/v1/namespaces/new", "", 200, "") // failures of the matching webhook are ignored
	expect(t, c, "DELETE", registration+"mutatingwebhookconfigurations/resource-mutating", "", 200, "")
	expect(t, c, "POST", configMapsOfDefault, configMap("b", ""), 201, "")
}

// BenchmarkPolicyEngines measures the creation of a ConfigMap without webhooks and with two webhook calls.
func BenchmarkPolicyEngines(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("engine=%t", with), func(b *testing.B) {
			c := newPlane(b, newEnv(b), "/engines")
			if with {
				startEngine(b, c)
			}
			b.ReportAllocs()
			for b.Loop() {
				if code, answer := send(b, c, "POST", configMapsOfDefault, `{"metadata":{"generateName":"a"}}`); code != 201 {
					b.Fatalf("create a ConfigMap: %d %s", code, answer)
				}
			}
		})
	}
}
