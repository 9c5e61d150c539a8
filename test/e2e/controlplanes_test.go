package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestHelmInControlPlanes installs a chart in each of 20 control planes of one server, and upgrades it when all of them
// have the release. Helm itself needs almost a second of CPU time for each action, mostly to read OpenAPI documents.
func TestHelmInControlPlanes(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "control planes have no control planes")
	count := 20
	if testing.Short() {
		count = 2
	}
	srv := testserver.New(t, testserver.Options{})
	all := make([]*helm, count)
	for i := range all {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		config, err := srv.ControlPlane(t.Context(), fmt.Sprint("plane-", i), kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = newHelmOf(t, config, kubeconfig, filepath.Join("testdata", "chart"))
		all[i].install(true)
	}
	for i, h := range all {
		h.wantRelease(1, "hello", false)
		greeting := fmt.Sprint("welcome to ", i)
		h.upgrade(map[string]any{"replicas": 3, "greeting": greeting, "extra": true})
		h.wantRelease(3, greeting, true)
		h.wantHistory("superseded", "deployed")
	}
}
