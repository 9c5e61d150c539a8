package server

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"mainstay.dev/mainstay/pki"
)

func TestMerged(t *testing.T) {
	t.Parallel()
	one, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	two, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{"names": `["a","b"]`, "certs": "nonsense\n" + string(one.Bundle()), "of another time": "x"}
	got := merged(there, map[string]string{"names": `["b","c"]`, "certs": string(two.Bundle()) + string(one.Bundle())})
	if got["names"] != `["a","b","c"]` || got["certs"] != string(one.Bundle())+string(two.Bundle()) || len(got) != 2 {
		t.Errorf("%v", got)
	}
	if got := merged(map[string]string{"names": "nonsense"}, map[string]string{"names": `["c"]`}); got["names"] != `["c"]` {
		t.Errorf("%v", got)
	}
}

// TestTrustIsPublished: other servers find whom to trust, also after somebody
// took it away.
func TestTrustIsPublished(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Config{DataDir: dir})
	maps := dynamicClient(t, s).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(trustName.Namespace)
	bundle, err := os.ReadFile(filepath.Join(dir, "pki", "front-proxy-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	published := func() map[string]any {
		config, err := maps.Get(t.Context(), trustName.Name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		data, _ := config.Object["data"].(map[string]any)
		return data
	}
	data := published()
	var headers []string
	if err := json.Unmarshal([]byte(data["requestheader-username-headers"].(string)), &headers); err != nil || len(headers) != 1 || headers[0] != "X-Remote-User" {
		t.Errorf("%v: %v", err, headers)
	}
	if data["requestheader-client-ca-file"] != string(bundle) || !strings.Contains(data["client-ca-file"].(string), "BEGIN CERTIFICATE") {
		t.Errorf("%v", data)
	}
	if err := maps.Delete(t.Context(), trustName.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		return published()["requestheader-client-ca-file"] == string(bundle), nil
	})
	if err != nil {
		t.Errorf("it does not come back: %v", err)
	}
}

func TestRequestHeaderConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config RequestHeaderConfig
		err    string
	}{
		{"none", RequestHeaderConfig{}, ""},
		{"all", RequestHeaderConfig{ClientCAFile: "ca.crt", UsernameHeaders: []string{"X-User"}}, ""},
		{"no authority", RequestHeaderConfig{UsernameHeaders: []string{"X-User"}}, "--requestheader-client-ca-file is needed"},
		{"no user", RequestHeaderConfig{ClientCAFile: "ca.crt"}, "--requestheader-username-headers is needed"},
		{"an empty name", RequestHeaderConfig{ClientCAFile: "ca.crt", UsernameHeaders: []string{"X-User"}, GroupHeaders: []string{" "}}, "--requestheader-group-headers: empty header name"},
	} {
		err := tt.config.check()
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
