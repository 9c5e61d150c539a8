package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/endpoints"
	"mainstay.dev/mainstay/internal/host"
)

// output runs a command and returns its output. It fails the test unless the exit code is code.
func output(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(args, &out, &errs, process{}); got != code {
		t.Fatalf("mainstay %s: exit code %d, want %d: %s", strings.Join(args, " "), got, code, errs.String())
	}
	return out.String(), errs.String()
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	table, _ := output(t, exitOK, "admission", "--enable-admission-plugins=AlwaysPullImages", "--disable-admission-plugins=Priority", "--secure-port=7443")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		name, rest, _ := strings.Cut(line, " ")
		rows[name] = strings.Join(strings.Fields(rest), " ")
	}
	for name, want := range map[string]string{
		"NAME":               "ON DOES",
		"AlwaysPullImages":   "yes sets the image pull policy of pods to Always",
		"Priority":           "no sets the priority of pods from their class, and rejects a second default class",
		"PodGroupProtection": "no (feature gate GenericWorkload) adds a finalizer that prevents the deletion of pod groups with pods, and rejects new pods in terminating groups",
	} {
		if rows[name] != want {
			t.Errorf("%s: %q, want %q", name, rows[name], want)
		}
	}
	document, _ := output(t, exitOK, "admission", "-o", "json", "--feature-gates=GenericWorkload=true")
	var listed []controlplane.AdmissionPlugin
	if err := json.Unmarshal([]byte(document), &listed); err != nil {
		t.Fatal(err)
	}
	for _, p := range listed {
		if p.Description == "" || p.Name == "PodGroupProtection" && !p.On {
			t.Errorf("plugin %+v, want a description, and PodGroupProtection on", p)
		}
	}
	if _, text := output(t, exitUsage, "admission", "--enable-admission-plugins=EventRateLimit"); !strings.Contains(text, "--enable-admission-plugins=EventRateLimit needs its configuration, by --admission-control-config-file") {
		t.Error(text)
	}
	if _, text := output(t, exitUsage, "admission", "--admission-control-config-file=nope"); !strings.Contains(text, "--admission-control-config-file: read the admission configuration: open nope") {
		t.Error(text)
	}
	if _, text := output(t, exitUsage, "admission", "-o", "yaml"); !strings.Contains(text, "it must be json") {
		t.Error(text)
	}
}

// TestExplainAdmission explains a file with objects of which some exist.
func TestExplainAdmission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serving := make(chan host.Serving, 1)
	host, err := host.New(host.Config{Storage: host.StorageConfig{DataDir: filepath.Join(dir, "data")}, Listen: host.ListenConfig{SecurePort: host.AnyPort}, OnServing: func(s host.Serving) { serving <- s }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	kubeconfig := "--kubeconfig=" + (<-serving).Kubeconfig
	file := filepath.Join(dir, "objects.yaml")
	objects := `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
---
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, labels: {pod-security.kubernetes.io/enforce: x}}
---
apiVersion: v1
kind: List
items:
- apiVersion: apiregistration.k8s.io/v1
  kind: APIService
  metadata: {name: v1.apps} # an update requires a resourceVersion
  spec: {group: apps, version: v1, groupPriorityMinimum: 17800, versionPriority: 15}
`
	if err := os.WriteFile(file, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	table, _ := output(t, exitOK, "explain-admission", kubeconfig, "-f", file)
	for _, want := range []string{
		"POST /api/v1/namespaces/default/pods: 201 Created", "sets spec.priority to 0", "other plugin calls had no effect",
		"PUT /api/v1/namespaces/kube-system: 422", "rejects: Namespace \"kube-system\" is invalid",
		"PUT /apis/apiregistration.k8s.io/v1/apiservices/v1.apps: 200 OK",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if running, _ := output(t, exitOK, "admission", kubeconfig); !strings.Contains(running, "LimitRanger ") || strings.Contains(running, "WEBHOOK ") {
		t.Error(running)
	}
	document, _ := output(t, exitOK, "explain-admission", kubeconfig, "-f", file, "-o", "json")
	var first endpoints.AdmissionExplanation
	if err := json.NewDecoder(strings.NewReader(document)).Decode(&first); err != nil || first.Code != 201 || len(first.Plugins) == 0 {
		t.Errorf("explain-admission -o json: %v: %s", err, document)
	}
	if err := os.WriteFile(file, []byte("apiVersion: nope/v1\nkind: X\nmetadata: {name: x}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, text := output(t, exitFailure, "explain-admission", kubeconfig, "-f", file); !strings.Contains(text, "find the resource of nope/v1 X") {
		t.Error(text)
	}
	if _, text := output(t, exitUsage, "explain-admission"); !strings.Contains(text, "-f is required") {
		t.Error(text)
	}
}

// TestExplainedDecisions checks the printed table of the decisions that policies and webhooks made.
func TestExplainedDecisions(t *testing.T) {
	t.Parallel()
	valid, not := true, false
	steps := []admission.Step{
		{Plugin: "MutatingAdmissionWebhook", Phase: "Mutate", Took: time.Millisecond, Changes: []admission.Change{{Path: "spec.a", After: 1}}, Decisions: []admission.Decision{
			{Configuration: "c", Webhook: "w.example.com", Took: time.Millisecond, Changes: []admission.Change{{Path: "spec.a", After: 1}}},
		}},
		{Plugin: "ValidatingAdmissionPolicy", Phase: "Validate", Took: time.Microsecond, Rejection: "no", Decisions: []admission.Decision{
			{Policy: "p", Binding: "b", Param: "n/x", Took: time.Microsecond, Evaluations: []admission.Evaluation{
				{Field: "spec.validations[0].expression", Valid: &valid, Took: 1}, {Field: "spec.validations[1].expression", Valid: &not, Message: "too\nmany", Took: 2}, {Field: "spec.validations[2].expression", Message: "no such key", Took: 3},
			}},
			{Policy: "q", Binding: "b", Unmet: "never"}, {Policy: "r", Failure: "failed to configure policy: x"},
		}},
	}
	var out bytes.Buffer
	if err := writeSteps(&out, steps); err != nil {
		t.Fatal(err)
	}
	want := `PLUGIN                     PHASE     DURATION  EFFECT
MutatingAdmissionWebhook   Mutate    1ms       webhook w.example.com of c, in 1ms
                                                 sets spec.a to 1
ValidatingAdmissionPolicy  Validate  1µs       policy p by binding b with parameter n/x, in 1µs
                                                 spec.validations[0].expression, in 1ns: valid
                                                 spec.validations[1].expression, in 2ns: not valid: too many
                                                 spec.validations[2].expression, in 3ns: no such key
                                               policy q by binding b, in 0s: condition "never" is not met
                                               policy r, in 0s
                                                 fails: failed to configure policy: x
                                               rejects: no
0 other plugin calls had no effect, in 0s
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestWebhookStates checks the table of webhooks.
func TestWebhookStates(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := writeWebhooks(&out, []webhooks.State{
		{Kind: "MutatingWebhookConfiguration", Configuration: "c", Webhook: "a.example.com"},
		{Kind: "ValidatingWebhookConfiguration", Configuration: "d", Webhook: "b.example.com", Failures: 7, CircuitOpen: true, LastFailure: "refused\nit"},
	}); err != nil {
		t.Fatal(err)
	}
	want := `
WEBHOOK        CONFIGURATION  KIND                            FAILURES  STATE
a.example.com  c              MutatingWebhookConfiguration    0         responding
b.example.com  d              ValidatingWebhookConfiguration  7         called less often until it responds: refused it
`
	if out.String() != want {
		t.Errorf("got%s\nwant%s", out.String(), want)
	}
}

// TestExplainInterrupted checks that a signal stops the command while it waits for data on its standard input.
func TestExplainInterrupted(t *testing.T) {
	t.Parallel()
	kubeconfig := writeTestKubeconfig(t, "https://127.0.0.1:1")
	silent, typing := io.Pipe()
	defer typing.Close()
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	root := newRoot(process{signals: signals})
	root.SetIn(silent)
	root.SetArgs([]string{"explain-admission", "--filename=-", "--kubeconfig=" + kubeconfig})
	if err := root.Execute(); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// TestAdmissionInterrupted checks that a signal stops the command while it waits for a server that does not
// respond.
func TestAdmissionInterrupted(t *testing.T) {
	t.Parallel()
	requested, stopped := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(requested)
		select {
		case <-r.Context().Done():
		case <-stopped:
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stopped) })
	signals := make(chan os.Signal)
	go func() {
		<-requested
		signals <- os.Interrupt
	}()
	args := []string{"admission", "--kubeconfig=" + writeTestKubeconfig(t, server.URL)}
	var errs bytes.Buffer
	if code := run(args, io.Discard, &errs, process{signals: signals}); code != exitFailure || !strings.Contains(errs.String(), "context canceled") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// writeTestKubeconfig writes a kubeconfig for a server and returns its path.
func writeTestKubeconfig(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: x}}], clusters: [{name: c, cluster: {server: %q}}]}`, url)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
