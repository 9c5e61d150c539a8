package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"mainstay.dev/mainstay/test/testserver"
)

// runAsKubectl is an environment variable that makes the test binary act as kubectl.
const runAsKubectl = "MAINSTAY_TEST_RUN_AS_KUBECTL"

// kubectlMain is the main function of kubectl.
func kubectlMain() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

// kubectlTimeout is the timeout of a command.
const kubectlTimeout = 2 * time.Minute

// kubectl runs kubectl commands in one namespace. It is safe for concurrent use.
type kubectl struct {
	t         *testing.T
	binary    string
	namespace string
	client    kubernetes.Interface
	env       []string
}

// newKubectl returns a kubectl with a new namespace. The discovery cache is in the directory home, which all
// tests with the same server can share.
func newKubectl(t *testing.T, srv *testserver.Server, home string) *kubectl {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(srv.RESTConfig())
	return &kubectl{
		t: t, binary: binary, namespace: newNamespace(t, client), client: client,
		env: append(os.Environ(), runAsKubectl+"=1", "KUBECONFIG="+srv.Kubeconfig(), "HOME="+home,
			"TMPDIR="+t.TempDir()), // kubectl edit leaves its file there after an error
	}
}

// outcome is the output and exit code of a command.
type outcome struct {
	stdout, stderr string
	code           int
}

// run runs a command in the namespace, with the given standard input.
func (k *kubectl) run(ctx context.Context, input string, args ...string) outcome {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, kubectlTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, k.binary, append([]string{"--namespace=" + k.namespace}, args...)...)
	var stdout, stderr bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr, c.Env = strings.NewReader(input), &stdout, &stderr, k.env
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		k.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return outcome{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// running is a command that runs in the background.
type running struct {
	k      *kubectl
	stdout testserver.Buffer
}

// begin starts a command in the background. The command is killed when the test ends.
func (k *kubectl) begin(args ...string) *running {
	k.t.Helper()
	r := &running{k: k}
	c := exec.CommandContext(k.t.Context(), k.binary, append([]string{"--namespace=" + k.namespace}, args...)...)
	c.Stdout, c.Stderr, c.Env = &r.stdout, os.Stderr, k.env
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { c.Wait() })
	return r
}

// await waits until the command has printed the text.
func (r *running) await(text string) {
	r.k.t.Helper()
	eventually(r.k.t, func() error {
		if got := r.stdout.String(); !strings.Contains(got, text) {
			return fmt.Errorf("kubectl has printed %q, which does not contain %q", got, text)
		}
		return nil
	})
}

// ok runs a command that must succeed, and returns its standard output.
func (k *kubectl) ok(args ...string) string {
	k.t.Helper()
	return k.okWith("", args...)
}

// okWith is like ok, but passes input to the command as standard input.
func (k *kubectl) okWith(input string, args ...string) string {
	k.t.Helper()
	o := k.run(k.t.Context(), input, args...)
	if o.code != 0 {
		k.t.Fatalf("kubectl %s: exit code %d\n%s%s", strings.Join(args, " "), o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// fails runs a command that must exit with the given code and print message to standard error. It returns
// everything that the command has printed to standard error.
func (k *kubectl) fails(code int, message string, args ...string) string {
	k.t.Helper()
	return k.failsWith("", code, message, args...)
}

// failsWith is like fails, but passes input to the command as standard input.
func (k *kubectl) failsWith(input string, code int, message string, args ...string) string {
	k.t.Helper()
	o := k.run(k.t.Context(), input, args...)
	if o.code != code || !strings.Contains(o.stderr, message) {
		k.t.Fatalf("kubectl %s: got exit code %d, want %d with %q on standard error\n%s%s",
			strings.Join(args, " "), o.code, code, message, o.stdout, o.stderr)
	}
	return o.stderr
}

// prints runs a command and checks that its output is want, ignoring white space at both ends.
func (k *kubectl) prints(want string, args ...string) {
	k.t.Helper()
	if got := k.ok(args...); strings.TrimSpace(got) != want {
		k.t.Errorf("kubectl %s printed\n%s\nwant\n%s", strings.Join(args, " "), got, want)
	}
}

// printsAll runs a command and checks that its output contains all parts.
func (k *kubectl) printsAll(args []string, parts ...string) string {
	k.t.Helper()
	got := k.ok(args...)
	for _, part := range parts {
		if !strings.Contains(got, part) {
			k.t.Errorf("kubectl %s does not print %q:\n%s", strings.Join(args, " "), part, got)
		}
	}
	return got
}

// matches runs a command and checks that its output matches a regular expression.
func (k *kubectl) matches(pattern string, args ...string) {
	k.t.Helper()
	if got := k.ok(args...); !regexp.MustCompile(pattern).MatchString(got) {
		k.t.Errorf("kubectl %s printed\n%s\nwhich does not match\n%s", strings.Join(args, " "), got, pattern)
	}
}

// file writes content to a temporary file with the given name and returns its path.
func (k *kubectl) file(name, content string) string {
	k.t.Helper()
	path := filepath.Join(k.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// args splits a command line at white space.
func args(line string) []string { return strings.Fields(line) }
