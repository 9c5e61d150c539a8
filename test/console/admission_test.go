package console

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

const admissionAPI = "/apis/admissionregistration.k8s.io/v1/"

// startWebhook starts an admission webhook that rejects objects named "rejected". It returns the webhook's URL
// and CA bundle. The webhook stops when the test ends.
func startWebhook(t testing.TB, calls *atomic.Int64) (url, caBundle string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var review struct {
			Request struct{ UID, Name string }
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := map[string]any{"uid": review.Request.UID, "allowed": review.Request.Name != "rejected", "status": map[string]string{"message": "the name is not allowed"}}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}) // the server may have disconnected
	}))
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL, base64.StdEncoding.EncodeToString(certificate)
}

func TestAdmission(t *testing.T) {
	browser := newBrowser(t)
	s := testserver.New(t, testserver.Options{})
	admin := newAPIUser(t, s.RESTConfig(), "")
	p := openPage(t, browser, startConsole(t, s.Kubeconfig()), "/console/admission")
	p.expect("404 (Not Found)") // the trace reads the object, which need not exist

	t.Run("Pod", func(t *testing.T) {
		p.in(t)
		testserver.Eventually(t, pageTimeout, func() error {
			if admin.get("/api/v1/namespaces/default/serviceaccounts/default") == nil {
				return fmt.Errorf("there is no service account yet")
			}
			return nil
		})
		p.await("kind: Pod")
		p.click("Run the trace")
		p.await("The server would accept the object.", "ServiceAccount", "serviceAccountName", "other plugin calls had no effect.")
		p.screenshot("trace")
		p.awaitMissing("NamespaceLifecycle")
		_, err := p.Eval(`() => document.querySelector("input[type=checkbox]").click()`)
		p.check(err)
		p.await("NamespaceLifecycle")
		_, err = p.Eval(`() => document.querySelector("input[type=checkbox]").click()`)
		p.check(err)
		if admin.get("/api/v1/namespaces/default/pods/example") != nil {
			t.Error("the trace has created the object")
		}
	})

	t.Run("Errors", func(t *testing.T) {
		p.in(t)
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: [\n")
		p.click("Run the trace")
		p.await("The object is not valid YAML")
		p.screenshot("syntax-error")
		p.edit("Object", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n")
		p.click("Run the trace")
		p.await("The server has no kind Widget in example.com/v1.")
		p.edit("Object", "just a text")
		p.click("Run the trace")
		p.await("The object has no apiVersion or no kind.")
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_Valid, namespace: default}\n")
		p.click("Run the trace")
		p.await("The server would reject the object", "metadata.name: Invalid value")
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: missing}\n")
		p.click("Run the trace")
		p.await(`namespaces "missing" not found`)
	})

	t.Run("Policy", func(t *testing.T) {
		p.in(t)
		admin.apply(admissionAPI+"validatingadmissionpolicies/team-label", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: team-label}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: not-a-system-object, expression: "!object.metadata.name.startsWith('kube-')"}]
  validations:
  - expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"
    message: the label team is missing
`)
		admin.apply(admissionAPI+"validatingadmissionpolicybindings/team-label-everywhere", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: team-label-everywhere}
spec: {policyName: team-label, validationActions: [Deny]}
`)
		testserver.Eventually(t, pageTimeout, func() error {
			code, body := admin.send(http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", "application/yaml", configMap("probe", "x"))
			if code != http.StatusUnprocessableEntity {
				return fmt.Errorf("the policy has no effect: %d %s", code, body)
			}
			return nil
		})
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: colors\n  namespace: default\n")
		p.click("Run the trace")
		p.await("The server would reject the object", "ValidatingAdmissionPolicy", "Policy team-label, binding team-label-everywhere",
			"has(object.metadata.labels) && 'team' in object.metadata.labels", "not valid", "the label team is missing")
		p.screenshot("policy")
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: colors\n  namespace: default\n  labels: {team: a}\n")
		p.click("Run the trace")
		p.await("The server would accept the object.", "valid")
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-colors, namespace: default}\n")
		p.click("Run the trace")
		p.await("The server would accept the object.", "The condition not-a-system-object is not met.")
		// A trace of an existing object explains an update.
		admin.apply(configMapPath("default", "existing"), `{apiVersion: v1, kind: ConfigMap, metadata: {name: existing, labels: {team: a}}}`)
		p.edit("Object", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: existing\n  namespace: default\n")
		p.click("Run the trace")
		p.await("The server would reject the object", "the label team is missing")
	})

	t.Run("Inventory", func(t *testing.T) {
		p.in(t)
		var calls atomic.Int64
		url, caBundle := startWebhook(t, &calls)
		admin.apply(admissionAPI+"validatingwebhookconfigurations/names", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: names}
webhooks:
- name: names.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: %q, caBundle: %s}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
`, url, caBundle))
		secret := func(name string) int {
			code, _ := admin.send(http.MethodPost, "/api/v1/namespaces/default/secrets", "application/yaml", fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: %s}}", name))
			return code
		}
		testserver.Eventually(t, pageTimeout, func() error {
			if code := secret("rejected"); code != http.StatusForbidden && code != http.StatusBadRequest {
				admin.send(http.MethodDelete, "/api/v1/namespaces/default/secrets/rejected", "application/json", "")
				return fmt.Errorf("the webhook has no effect: %d", code)
			}
			return nil
		})
		if code := secret("accepted"); code != http.StatusCreated {
			t.Fatalf("the response for an accepted object has the code %d", code)
		}
		p.click("Webhooks and policies")
		p.await("names.example.com", "names", "Fail", "team-label")
		p.screenshot("inventory")
		cells := func(table, name string) string {
			found, err := p.Eval(`(table, name) => [...document.querySelectorAll("table[aria-label=" + table + "] tbody tr")].find((row) => row.cells[0].innerText === name)?.innerText ?? ""`, table, name)
			p.check(err)
			return found.Value.Str()
		}
		want := fmt.Sprintf("names.example.com\tnames\tFail\t%d\t%d\t0\t", calls.Load(), calls.Load()-1)
		if got := cells("Webhooks", "names.example.com"); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("the row of the webhook is %q, expected %q and latencies", got, want)
		}
		// All earlier traces and requests were denied or accepted, and only denials are counted.
		if got := cells("Policies", "team-label"); !regexp.MustCompile(`^team-label\tFail\t\t[1-9]\d*\t0\t0\t`).MatchString(got) {
			t.Errorf("the row of the policy is %q", got)
		}
		// The trace contains the call of the webhook.
		p.click("Trace")
		p.edit("Object", "apiVersion: v1\nkind: Secret\nmetadata: {name: rejected, namespace: default}\n")
		p.click("Run the trace")
		p.await("The server would reject the object", "Webhook names.example.com of names", "the name is not allowed")
		p.screenshot("webhook")
	})
}
