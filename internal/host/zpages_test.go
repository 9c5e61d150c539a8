package host

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestZPages checks that /statusz and /flagz are available as text and as objects.
func TestZPages(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Debug: DebugConfig{Flags: map[string]string{"data-dir": "/d", "a": "b"}}})
	for _, tt := range []struct {
		method, path, accept string
		code                 int
		contentType, want    string
	}{
		{"GET", "/statusz", "text/plain", 200, "text/plain; charset=utf-8", fmt.Sprintf("\nEmulation version  1.%d\n", kubernetesMinor(t))},
		{"GET", "/statusz", "application/json, */*", 200, "text/plain; charset=utf-8", " /metrics "},
		{"GET", "/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 200, "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", `"kind":"Statusz"`},
		{"GET", "/statusz", "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz", 200, "application/yaml;g=config.k8s.io;v=v1alpha1;as=Statusz", "kind: Statusz"},
		{"GET", "/flagz", "text/plain", 200, "text/plain; charset=utf-8", "\na=b\ndata-dir=/d\n"},
		{"GET", "/flagz", "application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", 200, "application/json;g=config.k8s.io;v=v1alpha1;as=Flagz", `"flags":{"a":"b","data-dir":"/d"}`},
		{"GET", "/flagz", "application/json", 406, "application/json", "only the following media types are accepted"},
		{"GET", "/flagz", "application/json;v=v9;g=config.k8s.io;as=Flagz", 406, "application/json", "only the following media types are accepted"},
		{"POST", "/flagz", "text/plain", 405, "", "does not allow this method"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", tt.accept)
		code, body, header := roundTrip(t, s.admin, req)
		if code != tt.code || tt.contentType != "" && header.Get("Content-Type") != tt.contentType || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s as %s: %d %s %s", tt.method, tt.path, tt.accept, code, header.Get("Content-Type"), body)
		}
		if deprecated := strings.Contains(tt.accept, "v1alpha1"); deprecated != (header.Get("Warning") != "") {
			t.Errorf("%s as %s: warning %q", tt.path, tt.accept, header.Get("Warning"))
		}
	}
}

func roundTrip(t *testing.T, client *http.Client, req *http.Request) (code int, body string, header http.Header) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String(), resp.Header
}
