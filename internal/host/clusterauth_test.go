package host

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// clusterAuthName is the name of the ConfigMap with the cluster authentication configuration.
var clusterAuthName = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}

// TestClusterAuthentication checks that the server publishes the cluster authentication configuration, and
// restores the ConfigMap if it is deleted.
func TestClusterAuthentication(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	maps := dynamicClient(t, s).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(clusterAuthName.Namespace)
	bundle, err := os.ReadFile(filepath.Join(dir, "pki", "front-proxy-ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	published := func() map[string]any {
		config, err := maps.Get(t.Context(), clusterAuthName.Name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		data, _ := config.Object["data"].(map[string]any)
		return data
	}
	data := published()
	var headers []string
	if err := json.Unmarshal([]byte(data["requestheader-username-headers"].(string)), &headers); err != nil || len(headers) != 1 || headers[0] != "X-Remote-User" {
		t.Errorf("user name headers: error %v, %v, want X-Remote-User", err, headers)
	}
	if data["requestheader-client-ca-file"] != string(bundle) || !strings.Contains(data["client-ca-file"].(string), "BEGIN CERTIFICATE") {
		t.Errorf("published data %v, want both certificate authorities", data)
	}
	if err := maps.Delete(t.Context(), clusterAuthName.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 2*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		return published()["requestheader-client-ca-file"] == string(bundle), nil
	})
	if err != nil {
		t.Errorf("the ConfigMap was not restored: %v", err)
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
		{"no authority", RequestHeaderConfig{UsernameHeaders: []string{"X-User"}}, ""},
		{"no user", RequestHeaderConfig{ClientCAFile: "ca.crt"}, "requires --requestheader-username-headers"},
		{"an empty name", RequestHeaderConfig{ClientCAFile: "ca.crt", UsernameHeaders: []string{"X-User"}, GroupHeaders: []string{" "}}, "--requestheader-group-headers: empty header name"},
	} {
		err := tt.config.check()
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
		if ignored := tt.config.isIgnored(); ignored != (tt.name == "no authority") {
			t.Errorf("%s: ignored is %t", tt.name, ignored)
		}
	}
}
