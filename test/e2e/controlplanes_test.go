package e2e

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/test/testserver"
)

var helmControlPlanes = flag.Int("helm-control-planes", 6, "number of control planes in TestHelmInControlPlanes")

// TestHelmInControlPlanes installs a chart in several control planes of one server, and upgrades the release in
// each of them after all control planes have it. Helm itself needs almost a second of CPU time for each action,
// mostly to read OpenAPI documents, so only manual runs use 100 control planes.
func TestHelmInControlPlanes(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "control planes have no control planes")
	count := *helmControlPlanes
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

// TestHelmFork upgrades a chart in a fork, and applies the changes of the fork to the source.
func TestHelmFork(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "control planes have no control planes")
	srv := testserver.New(t, testserver.Options{})
	binary := must[string](t)(testserver.Binary())
	run := func(args ...string) string {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), binary, append(args, "--kubeconfig="+srv.Kubeconfig())...).CombinedOutput()
		if err != nil {
			t.Fatalf("mainstay %q: %v: %s", args, err, output)
		}
		return string(output)
	}
	chart := filepath.Join("testdata", "chart")
	source := newHelm(t, srv, chart)
	source.install(true)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	run("fork", "root", "try", "--output="+file)
	config := must[*rest.Config](t)(clientcmd.BuildConfigFromFlags("", file))
	fork := &helm{clients: clientsIn(config, source.namespace), t: t, config: newHelmConfig(t, file, source.namespace, config.Host), chart: source.chart}
	fork.wantRelease(1, "hello", false)
	fork.upgrade(map[string]any{"replicas": 3, "greeting": "welcome", "extra": true})
	fork.wantRelease(3, "welcome", true)
	source.wantRelease(1, "hello", false)

	if text := run("diff", "control-plane/try"); !strings.Contains(text, "+  greeting: welcome\n") || !strings.Contains(text, "+  replicas: 3\n") {
		t.Errorf("the difference is\n%s", text)
	}
	run("apply-diff", "try", "--yes")
	source.wantRelease(3, "welcome", true)
	source.wantHistory("superseded", "deployed")
	if text := run("apply-diff", "try", "--yes"); !strings.Contains(text, "root has all changes of try") {
		t.Errorf("after carrying over:\n%s", text)
	}
	// Server-side apply can upgrade the release, because Helm owns the fields.
	source.upgrade(map[string]any{"replicas": 4, "greeting": "again"})
	source.wantRelease(4, "again", false)
	source.wantHistory("superseded", "superseded", "deployed")
	fork.wantRelease(3, "welcome", true)
}
