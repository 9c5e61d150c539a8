package host

import (
	"net/http"
	"strings"
	"testing"
)

// TestOlderVersion starts servers of different Kubernetes versions with the same store, one after another. It
// checks that an older version preserves the content that a newer version wrote, and that a newer version can
// read objects that an older version wrote.
func TestOlderVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func(minor int) *running {
		config := Config{Storage: StorageConfig{DataDir: dir}}
		config.ControlPlane.Features.Emulation.Minor = minor
		config.ControlPlane.Features.RuntimeConfig = map[string]string{"resource.k8s.io/v1beta2": "true"}
		return start(t, config)
	}
	const (
		pod      = "/api/v1/namespaces/default/pods/a"
		override = `"hostnameOverride":"newer"`
	)
	r := serve(0)
	r.must(t, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"a"},"spec":{`+override+`,"containers":[{"name":"c","image":"i"}]}}`)
	r.must(t, "POST", "/apis/resource.k8s.io/v1/deviceclasses", `{"metadata":{"name":"newer"}}`)
	r.end(t)

	r = serve(33)
	if body := r.must(t, "GET", pod, ""); !strings.Contains(body, override) {
		t.Errorf("read by 1.33: %s", body)
	}
	code, body := r.send(t, "PATCH", pod+"?fieldValidation=Strict", `{"metadata":{"labels":{"a":"b"}},"spec":{"activeDeadlineSeconds":100}}`, "Content-Type", "application/merge-patch+json")
	if code != http.StatusOK || !strings.Contains(body, override) {
		t.Errorf("patched by 1.33: %d: %s", code, body)
	}
	if code, body := r.send(t, "GET", "/apis/resource.k8s.io/v1/deviceclasses/newer", ""); code != http.StatusNotFound {
		t.Errorf("resource.k8s.io/v1 in 1.33: %d: %s", code, body)
	}
	r.must(t, "GET", "/apis/resource.k8s.io/v1beta2/deviceclasses/newer", "")
	r.must(t, "POST", "/apis/resource.k8s.io/v1beta2/deviceclasses", `{"metadata":{"name":"older"}}`)
	r.end(t)

	r = serve(0)
	if body := r.must(t, "GET", pod, ""); !strings.Contains(body, override) || !strings.Contains(body, `"a":"b"`) {
		t.Errorf("read by the newest version: %s", body)
	}
	r.must(t, "GET", "/apis/resource.k8s.io/v1/deviceclasses/older", "")
}
