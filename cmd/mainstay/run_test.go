//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/test/testserver"
)

// widgetManifest contains a list whose objects require the namespace in the second document.
const widgetManifest = `apiVersion: v1
kind: List
items:
- {apiVersion: example.com/v1, kind: Widget, metadata: {name: one, namespace: shop}}
- {apiVersion: v1, kind: ConfigMap, metadata: {generateName: made-}}
---
# nothing
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`

// runIn returns a "mainstay run" command that creates temporary files in a folder of the test. The folder must
// be empty when the test ends.
func runIn(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	t.Cleanup(func() {
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("after the run there are %v (%v) in the folder of temporary files", left, err)
		}
	})
	command := exec.Command(binary, append([]string{"run"}, args...)...)
	command.Env = append(os.Environ(), "TMPDIR="+temporary)
	return command
}

func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	definitions, objects, broken := write("widgets.yaml", testserver.Widgets), write("objects.yaml", widgetManifest), write("broken.txt", "kind: [")
	s := testserver.New(t, testserver.Options{Dir: filepath.Join(t.TempDir(), "data")})
	snapshot := filepath.Join(dir, "snapshot")
	if code := run([]string{"snapshot", "save", snapshot, "--kubeconfig=" + filepath.Join(s.Dir(), "admin.kubeconfig")}, io.Discard, os.Stderr, process{}); code != 0 {
		t.Fatalf("save a snapshot: %d", code)
	}
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	unknown := write("unknown.txt", "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}}")
	tests := []struct {
		name string
		args []string
		code int
		want string // in the output
	}{
		{"a command", []string{"--", "sh", "-c", `grep -c "server: .https://127.0.0.1:" "$KUBECONFIG"`}, 0, "1\n"},
		{"an exit code", []string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{"killed by a signal", []string{"--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{"no such command", []string{"--", "there-is-no-such-command"}, 127, "there-is-no-such-command"},
		{"not executable", []string{"--", definitions}, 126, "permission denied"},
		{"flags of the command", []string{"sh", "-c", "echo $1", "sh", "--users"}, 0, "--users\n"},
		{"fixtures", []string{"--crds=" + definitions, "--manifests=" + objects, "--users=jane:system:masters", "--", "sh", "-c", "grep -c 'user: .jane' $KUBECONFIG"}, 0, "1\n"},
		{"a folder of fixtures", []string{"--manifests=" + dir, "--", "true"}, 0, ""},
		{"further control planes", []string{"--crds=" + definitions, "--control-planes=2", "--", "sh", "-c", `grep -c "/clusters/worker-1" "$KUBECONFIG_1"`}, 0, "1\n"},
		{"a snapshot", []string{"--fork-of=" + snapshot, "--control-planes=1", "--", binary, "fork", "root", "copy", "--output=" + filepath.Join(dir, "copy")}, 0, "copy is a copy of root"},
		{"a missing snapshot", []string{"--fork-of=" + filepath.Join(dir, "none"), "--", "true"}, 1, "open the snapshot"},
		{"a damaged snapshot", []string{"--fork-of=" + definitions, "--", "true"}, 1, "not a snapshot"},
		{"a snapshot with a directory", []string{"--fork-of=" + snapshot, "--data-dir=" + filepath.Join(dir, "data"), "--", "true"}, 2, "--fork-of starts a server in memory"},
		{"no command", nil, 2, "a command is required after --"},
		{"a user without a name", []string{"--users=:x", "--", "true"}, 2, `--users is ":x"`},
		{"duplicate user", []string{"--users=a", "--users=a:b", "--", "true"}, 2, `--users is "a:b"`},
		{"a group without a name", []string{"--users=a:b,", "--", "true"}, 2, "a group name is empty"},
		{"missing fixtures", []string{"--manifests=nope", "--", "true"}, 1, "--manifests: read manifests: stat nope"},
		{"invalid YAML", []string{"--manifests=" + broken, "--", "true"}, 1, "read " + broken},
		{"no definitions", []string{"--crds=" + unknown, "--", "true"}, 1, "there is no CustomResourceDefinition"},
		{"unknown kind", []string{"--manifests=" + unknown, "--", "true"}, 1, "Gadget g of " + unknown + ": the server has no API example.com/v1; apply its CustomResourceDefinition first"},
		{"a log", []string{"--server-log=-", "--", "true"}, 0, "level=INFO msg=serving"},
		{"a flag of serve", []string{"--feature-gates=Nope=true", "--", "true"}, 1, "unrecognized feature gate: Nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := runIn(t, tt.args...)
			out, _ := command.CombinedOutput()
			if code := command.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) {
				t.Errorf("ended with %d, and the output\n%s\nwant %d and %q", code, out, tt.code, tt.want)
			}
		})
	}
}

// TestRunPassesSignals checks that a signal is forwarded to the command, and that the command's exit code
// becomes the result.
func TestRunPassesSignals(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		command := runIn(t, "--", "sh", "-c", `trap 'exit 9' INT TERM HUP; echo ready; while :; do sleep 0.01; done`)
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal, because its interrupts are not forwarded
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("the command printed %q (%v)", line, err)
		}
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait()
		if code := command.ProcessState.ExitCode(); code != 9 {
			t.Errorf("after %s: exit code %d, want 9", signal, code)
		}
	}
}

// TestRunWithoutHangups checks that the command ignores SIGHUP if it is ignored when the server starts, as under nohup.
func TestRunWithoutHangups(t *testing.T) {
	t.Parallel()
	run := runIn(t, "--", "sh", "-c", "kill -HUP $$; echo alive")
	command := exec.Command("sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`}, run.Args...)...)
	command.Env = run.Env
	if out, err := command.CombinedOutput(); err != nil || string(out) != "alive\n" {
		t.Errorf("output %q, %v", out, err)
	}
}

// TestRunKeepsOnFailure checks that the server continues to run after a failed command until a signal arrives.
func TestRunKeepsOnFailure(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			runUntil(t, signal)
		})
	}
}

// runUntil runs a command that fails, and sends a signal to the server.
func runUntil(t *testing.T, signal os.Signal) {
	t.Helper()
	command := runIn(t, "--keep-on-failure", "--", "false")
	errors, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(errors).ReadString('\n')
	_, file, ok := strings.Cut(strings.TrimSpace(line), "KUBECONFIG=")
	if !ok || err != nil {
		t.Fatalf("stderr has %q (%v)", line, err)
	}
	client, url, err := kubeconfig.Client(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.Get(url + "/readyz"); err != nil {
		t.Errorf("the server is not running: %v", err)
	} else {
		resp.Body.Close()
	}
	client.CloseIdleConnections()
	if err := command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if code := command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1, the exit code of the command", code)
	}
}
