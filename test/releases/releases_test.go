package releases

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// every selects all versions. By default, only the oldest version is tested, because compiling kubectl takes
// about a minute for each version.
var every = flag.Bool("every", false, "test all versions, not only the oldest one")

// TestReleases runs clients of older versions against servers that emulate these versions.
func TestReleases(t *testing.T) {
	if testing.Short() {
		t.Skip("the clients of older versions are not compiled with -short")
	}
	files, err := filepath.Glob(filepath.Join("client", "go-1.*.mod")) // sorted
	if err != nil || len(files) == 0 {
		t.Fatalf("mod files: %q, %v", files, err)
	}
	if !*every {
		files = files[:1]
	}
	for _, file := range files {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "go-"), ".mod")
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			client := buildClient(t, file)
			server := testserver.New(t, testserver.Options{Flags: []string{"--emulated-version=" + version}})
			command := func(args ...string) (string, error) {
				cmd := exec.CommandContext(t.Context(), client, args...)
				cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "KUBECONFIG="+server.Kubeconfig(), "HOME="+t.TempDir())
				output, err := cmd.CombinedOutput()
				return string(output), err
			}
			if output, err := command(); err != nil {
				t.Errorf("client-go of %s: %v\n%s", version, err, output)
			}
			testKubectl(t, version, command)
		})
	}
}

// buildClient compiles the client with the requirements in a mod file, and returns the path of the executable.
func buildClient(t *testing.T, modfile string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client")
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Dir(modfile), "build", "-modfile="+filepath.Base(modfile), "-ldflags=-s -w", "-o", path, ".")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, output)
	}
	return path
}

// testKubectl runs kubectl commands. Some of them must fail.
func testKubectl(t *testing.T, version string, command func(args ...string) (string, error)) {
	t.Helper()
	manifest := filepath.Join(t.TempDir(), "pod.yaml")
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  containers: [{name: c, image: i}]\n  volumes: [{name: v, emptyDir: {%s}}]\n"
	for _, tt := range []struct {
		pod, args string
		fails     bool
		want      string
	}{
		{args: "get --raw /version", want: `"gitVersion": "v` + version + ".0+mainstay"},
		{args: "explain pod.spec.hostname", want: "FIELD: hostname <string>"},
		{args: "explain pod.spec.volumes.emptyDir.mode", fails: true, want: `field "mode" does not exist`},
		{args: "api-resources --api-group=apps -o name", want: "deployments.apps"},
		{pod: fmt.Sprintf(pod, "a", "sizeLimit: 1Gi"), args: "apply -f " + manifest, want: "pod/a created"},
		{pod: fmt.Sprintf(pod, "b", "mode: 7"), args: "create -f " + manifest, fails: true, want: `unknown field "spec.volumes[0].emptyDir.mode"`},
		{pod: fmt.Sprintf(pod, "b", "mode: 7"), args: "apply --server-side -f " + manifest, fails: true, want: ".spec.volumes[0].emptyDir.mode: field not declared in schema"},
		{args: "label pod a b=c", want: "pod/a labeled"},
		{args: "get pods --show-labels", want: "b=c"},
		{args: "delete pod a --now", want: `pod "a" deleted`},
	} {
		if tt.pod != "" {
			if err := os.WriteFile(manifest, []byte(tt.pod), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		output, err := command(append([]string{"kubectl"}, strings.Fields(tt.args)...)...)
		if (err != nil) != tt.fails || !strings.Contains(output, tt.want) {
			t.Errorf("kubectl %s: %v, want %q:\n%s", tt.args, err, tt.want, output)
		}
	}
}
