package controlplane

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/admission/config"
)

const (
	webhookConfigurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	configMapsOfDefault   = "/api/v1/namespaces/default/configmaps"
)

// rejecting starts a webhook that rejects all requests. The returned function returns a configuration for the
// webhook with the given name and resources.
func rejecting(t *testing.T) func(name, resources string) string {
	t.Helper()
	return configured(t, reject)
}

// reject responds to a review with a rejection.
func reject(w http.ResponseWriter, r *http.Request) {
	var review struct{ Request struct{ UID string } }
	_ = json.NewDecoder(r.Body).Decode(&review)
	_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":false,"status":{"message":"never"}}}`, review.Request.UID)
}

// configured starts a webhook. The returned function returns a configuration for the webhook with the given
// name and resources.
func configured(t testing.TB, webhook http.HandlerFunc) func(name, resources string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(webhook)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return func(name, resources string) string {
		return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":%q},"webhooks":[{
			"name":"never.example.com","clientConfig":{"url":%q,"caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],
			"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":[%q]}]}]}`, name, server.URL, bundle, resources)
	}
}

func expect(t *testing.T, c *ControlPlane, method, path, body string, code int, text string) {
	t.Helper()
	if got, answer := send(t, c, method, path, body); got != code || !strings.Contains(answer, text) {
		t.Errorf("%s %s: %d %.500s\nwant %d with %s", method, path, got, answer, code, text)
	}
}

// TestWebhooksInEffect checks that a webhook is called as soon as the write of its configuration has returned,
// until the configuration is deleted. It is never called for webhook configurations.
func TestWebhooksInEffect(t *testing.T) {
	t.Parallel()
	configuration := rejecting(t)
	c := newPlane(t, newEnv(t), "/webhooks")
	const configMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a"}}`
	for range 20 {
		expect(t, c, "POST", configMapsOfDefault, configMap, 201, "")
		expect(t, c, "POST", webhookConfigurations, configuration("all", "*/*"), 201, "")
		expect(t, c, "POST", configMapsOfDefault, configMap, 400, `admission webhook \"never.example.com\" denied the request: never`)
		expect(t, c, "DELETE", configMapsOfDefault, "", 400, "never")
		expect(t, c, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, 201, "")
		expect(t, c, "DELETE", webhookConfigurations+"/all", "", 200, "")
	}
}

// withManifests returns options with a directory of webhook configurations.
func withManifests(dir string) Options {
	return Options{Admission: AdmissionOptions{Config: &config.Config{ValidatingAdmissionWebhook: config.WebhookAdmission{StaticManifestsDir: dir}}}}
}

// TestManifests checks that webhooks in files have effect from the start, even on admission configuration,
// until the files are replaced with other valid files.
func TestManifests(t *testing.T) {
	t.Parallel()
	configuration := rejecting(t)
	dir := t.TempDir()
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(configuration("guard.static.k8s.io", "validatingwebhookconfigurations"))
	c, err := New(newEnv(t), "/manifests", withManifests(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	expect(t, c, "POST", webhookConfigurations, configuration("own", "pods"), 400, "never")
	expect(t, c, "GET", webhookConfigurations+"/guard.static.k8s.io", "", 404, "")
	i := c.opened.Load()
	for name, content := range map[string]string{
		"no suffix":   configuration("guard", "pods"),
		"bad timeout": strings.Replace(configuration("guard.static.k8s.io", "pods"), `"sideEffects"`, `"timeoutSeconds":99,"sideEffects"`, 1),
		"a service":   strings.Replace(configuration("guard.static.k8s.io", "pods"), `"clientConfig":{`, `"clientConfig":{"service":{"namespace":"a","name":"b"},`, 1),
		"no object":   "nothing",
	} {
		write(content)
		if i.admission.manifests[0].reload() == nil {
			t.Errorf("%s: reload returned no error", name)
		}
		expect(t, c, "POST", webhookConfigurations, configuration("own", "pods"), 400, "never")
	}
	write("# nothing any more\n")
	if err := i.admission.manifests[0].reload(); err != nil {
		t.Error(err)
	}
	expect(t, c, "POST", webhookConfigurations, configuration("own.static.k8s.io", "pods"), 422, "are reserved for static manifest-based configurations")
	expect(t, c, "POST", webhookConfigurations, configuration("own", "pods"), 201, "")
	write("nothing")
	broken, err := New(newEnv(t), "/broken", withManifests(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broken.Close)
	if code, _ := send(t, broken, "GET", "/api/v1/namespaces", ""); code < 500 {
		t.Errorf("with a broken file: %d", code)
	}
}
