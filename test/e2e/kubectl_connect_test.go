package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
)

var connecting = []kubectlBehavior{
	{"reads logs", readLogs},
	{"follows logs", followLogs},
	{"runs commands in containers", inBothProtocols(execute)},
	{"has a terminal in containers", inBothProtocols(executeOnTerminal)},
	{"copies files", inBothProtocols(copyFiles)},
	{"attaches", inBothProtocols(attach)},
	{"forwards ports", inBothProtocols(forwardPorts)},
	{"debugs pods", debugPod},
	{"debugs nodes", debugNode},
	{"does not connect to this machine through a proxy", proxyToNode},
}

// inBothProtocols runs a behavior first with WebSockets, the default of kubectl, and then with SPDY.
func inBothProtocols(behavior func(t *testing.T, k *kubectl)) func(t *testing.T, k *kubectl) {
	return func(t *testing.T, k *kubectl) {
		createRunning(t, k)
		behavior(t, k)
		k.env = append(k.env, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false", "KUBECTL_PORT_FORWARD_WEBSOCKETS=false")
		behavior(t, k)
	}
}

// createRunning creates a node with a kubelet, and on this node a pod p with the containers c and d. Some
// commands of the containers run as processes on this machine.
func createRunning(t *testing.T, k *kubectl) *kubelettest.Kubelet {
	kubelet := kubelettest.New(t)
	plain := kubelet.Run
	kubelet.Run = func(c *kubelettest.Command) int {
		if len(c.Args) > 0 && slices.Contains([]string{"sh", "tar", "test"}, c.Args[0]) {
			return process(c)
		}
		return plain(c)
	}
	k.createNode("127.0.0.1", kubelet.Port(), "127.0.0.1")
	return kubelet
}

// process runs the command of a container as a local process and returns its exit code.
func process(c *kubelettest.Command) int {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		_, _ = fmt.Fprintln(c.Stderr, err)
		return 127
	}
	return cmd.ProcessState.ExitCode()
}

// createNode creates a node whose kubelet has the given address, and on this node a pod p with the address
// podIP.
func (k *kubectl) createNode(address string, port int, podIP string) {
	k.t.Helper()
	k.okWith(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %[1]s}
status:
  addresses: [{type: InternalIP, address: %[2]s}]
  daemonEndpoints: {kubeletEndpoint: {Port: %[3]d}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: %[1]s, containers: [{name: c, image: i}, {name: d, image: i}]}
`, k.namespace, address, port), "create", "-f", "-")
	k.ok("patch", "pod", "p", "--subresource=status", "-p", fmt.Sprintf(`{"status":{"phase":"Running","podIPs":[{"ip":"%[1]s"}],"podIP":"%[1]s"}}`, podIP))
}

func readLogs(t *testing.T, k *kubectl) {
	createRunning(t, k)
	k.prints("log of /containerLogs/"+k.namespace+"/p/c?tailLines=5", "logs", "p", "-c", "c", "--tail=5")
	k.prints("log of /containerLogs/"+k.namespace+"/p/d?follow=true", "logs", "-f", "p", "-c", "d")
	k.fails(1, "container x is not valid for pod p", "logs", "p", "-c", "x")
	k.fails(1, "previous terminated container not found", "logs", "p", "-c", "c", "--previous")
}

// followLogs checks that new lines of a log are delivered immediately.
func followLogs(t *testing.T, k *kubectl) {
	log, lines := io.Pipe()
	t.Cleanup(func() { _ = lines.Close() }) // runs before the kubelet's cleanup, which waits for its requests
	kubelet := createRunning(t, k)
	kubelet.Log = func(*http.Request) io.Reader { return log }
	followed := k.begin("logs", "-f", "p", "-c", "c")
	for _, line := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(lines, line); err != nil {
			t.Fatal(err)
		}
		followed.await(line)
	}
	_ = lines.Close()
}

func execute(t *testing.T, k *kubectl) {
	k.prints("hello there", "exec", "p", "-c", "c", "--", "hello", "there")
	k.fails(7, "it fails", "exec", "p", "-c", "c", "--", "exit", "7")
	k.fails(1, "container x is not valid for pod p", "exec", "p", "-c", "x", "--", "true")
	k.fails(3, "to stderr", "exec", "p", "-c", "c", "--", "sh", "-c", "echo to stderr >&2; exit 3")
	input := strings.Repeat("typed\n", 1<<16)
	if out := k.okWith(input, "exec", "-i", "p", "-c", "c", "--", "cat"); out != input {
		t.Errorf("%d of %d bytes", len(out), len(input))
	}
}

// executeOnTerminal checks that a command in the container receives the size of the user's terminal.
func executeOnTerminal(t *testing.T, k *kubectl) {
	out := k.onTerminal(33, 77, "exec", "-it", "p", "-c", "c", "--", "size")
	if !strings.Contains(out, `{"Width":77,"Height":33}`) {
		t.Errorf("terminal output %q, want width 77 and height 33", out)
	}
}

// copyFiles copies a folder to a container and back. The container runs tar.
func copyFiles(t *testing.T, k *kubectl) {
	there, here, back := t.TempDir(), filepath.Join(t.TempDir(), "folder"), t.TempDir()
	if err := os.Mkdir(here, 0o700); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	for name, data := range map[string][]byte{"empty": nil, "text": text} {
		if err := os.WriteFile(filepath.Join(here, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.ok("cp", here, "p:"+there, "-c", "c")
	k.ok("cp", "p:"+filepath.Join(there, "folder"), filepath.Join(back, "folder"), "-c", "c")
	for name, want := range map[string][]byte{"empty": nil, "text": text} {
		if got, err := os.ReadFile(filepath.Join(back, "folder", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func attach(t *testing.T, k *kubectl) {
	if out := k.okWith("typed\n", "attach", "-i", "p", "-c", "c"); out != "typed\n" {
		t.Errorf("output of kubectl attach: %q, want the input", out)
	}
}

// forwardPorts opens concurrent connections. Each client half-closes its connection before the server has sent
// the complete response.
func forwardPorts(t *testing.T, k *kubectl) {
	forwarded := k.begin("port-forward", "pod/p", ":80")
	forwarded.await("Forwarding from 127.0.0.1:")
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(forwarded.stdout.String())
	var all sync.WaitGroup
	for n := range 5 {
		all.Go(func() {
			text := strings.Repeat(fmt.Sprintf("connection %d\n", n), 50_000)
			if got, err := sendAll(address, text); err != nil || got != text {
				t.Errorf("connection %d: %d of %d bytes, %v", n, len(got), len(text), err)
			}
		})
	}
	all.Wait()
}

// sendAll sends a text, half-closes the connection, and returns the response.
func sendAll(address, text string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	go func() {
		_, _ = io.WriteString(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	return string(got), err
}

// debugPod attaches to an ephemeral container as soon as the container runs.
func debugPod(t *testing.T, k *kubectl) {
	createRunning(t, k)
	done := make(chan string)
	go func() {
		done <- k.okWith("typed\n", "debug", "p", "--image=i", "--container=dbg", "--target=c", "--quiet", "-i", "--", "cat")
	}()
	eventually(t, func() error {
		pod, err := k.client.CoreV1().Pods(k.namespace).Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n := len(pod.Spec.EphemeralContainers); n != 1 {
			return fmt.Errorf("the pod has %d ephemeral containers, want 1", n)
		}
		pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "dbg", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		_, err = k.client.CoreV1().Pods(k.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		return err
	})
	if out := <-done; !strings.Contains(out, "typed\n") {
		t.Errorf("output of kubectl debug: %q, want the input", out)
	}
}

func debugNode(t *testing.T, k *kubectl) {
	createRunning(t, k)
	k.ok("debug", "node/"+k.namespace, "--image=i", "--profile=general")
	pods, err := k.client.CoreV1().Pods(k.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=kubectl-debug"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Spec.NodeName != k.namespace || !pods.Items[0].Spec.HostPID {
		text, _ := json.Marshal(pods)
		t.Errorf("pods of kubectl debug: %v, %s; want one on the node with hostPID", err, text)
	}
}

func proxyToNode(t *testing.T, k *kubectl) {
	kubelet := createRunning(t, k)
	k.fails(1, "address not allowed", "get", "--raw", "/api/v1/nodes/"+k.namespace+"/proxy/echo/")
	k.fails(1, "address not allowed", "get", "--raw", "/api/v1/namespaces/"+k.namespace+"/pods/p/proxy/echo/")
	if got := kubelet.Requests(); len(got) > 0 {
		t.Error(got)
	}
}
