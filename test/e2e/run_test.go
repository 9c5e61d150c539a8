package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// mainstayRun returns a "mainstay run" command with the given arguments.
func mainstayRun(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), binary, append([]string{"run"}, args...)...)
}

// bashTest is a bash script. $0 is the test binary, which acts as kubectl if the environment variable named by
// $KUBECTL is set.
const bashTest = `set -euo pipefail
kubectl() { env "$KUBECTL=1" "$0" "$@"; }
kubectl create configmap settings --from-literal=colour=blue
[ "$(kubectl get configmap settings -o jsonpath={.data.colour})" = blue ]
if kubectl --context=jane get secrets; then exit 1; fi
kubectl delete namespace kube-node-lease --wait
echo content`

// TestRunBash runs a bash script with "mainstay run".
func TestRunBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	kubectl, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := mainstayRun(t, "--users=jane:developers", "--", bash, "-c", bashTest, kubectl)
	run.Env = append(os.Environ(), "KUBECTL="+runAsKubectl, "HOME="+t.TempDir())
	if out, err := run.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "content\n") {
		t.Errorf("mainstay run -- bash: %v\n%s", err, out)
	}
}

// fetchTimeout is the timeout for downloading packages.
const fetchTimeout = 2 * time.Minute

// TestRunNode runs "mainstay run -- npm test" with @kubernetes/client-node. The test is skipped if Node.js is
// missing or its packages cannot be downloaded.
func TestRunNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: the test downloads npm packages")
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s: @kubernetes/client-node is not tested", program)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fetchTimeout)
	defer cancel()
	fetch := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	fetch.Dir = dir
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("the npm packages cannot be downloaded: %v\n%s", err, out)
	}
	run := mainstayRun(t, "--users=jane:developers", "--", "npm", "test")
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil || !strings.Contains(string(out), "client-node is content\n") {
		t.Errorf("mainstay run -- npm test: %v\n%s", err, out)
	}
}
