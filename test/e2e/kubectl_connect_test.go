package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mainstay.dev/mainstay/kubelet/kubelettest"
)

var connecting = []kubectlBehaviour{
	{"reads logs", readLogs},
	{"runs commands in containers", execute},
	{"copies files", copyFiles},
	{"attaches", attach},
	{"does not reach this machine through a proxy", proxyToNode},
}

// createRunning makes a node of a kubelet, and a pod p on it with the containers c
// and d.
func createRunning(t *testing.T, k *kubectl) *kubelettest.Kubelet {
	kubelet := kubelettest.New(t)
	k.okWith(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %[1]s}
status:
  addresses: [{type: InternalIP, address: 127.0.0.1}]
  daemonEndpoints: {kubeletEndpoint: {Port: %[2]d}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: %[1]s, containers: [{name: c, image: i}, {name: d, image: i}]}
`, k.namespace, kubelet.Port()), "create", "-f", "-")
	k.ok("patch", "pod", "p", "--subresource=status", "-p", `{"status":{"phase":"Running"}}`)
	return kubelet
}

func readLogs(t *testing.T, k *kubectl) {
	createRunning(t, k)
	k.prints("log of /containerLogs/"+k.namespace+"/p/c?tailLines=5", "logs", "p", "-c", "c", "--tail=5")
	k.prints("log of /containerLogs/"+k.namespace+"/p/d?follow=true", "logs", "-f", "p", "-c", "d")
	k.fails(1, "container x is not valid for pod p", "logs", "p", "-c", "x")
	k.fails(1, "previous terminated container not found", "logs", "p", "-c", "c", "--previous")
}

func execute(t *testing.T, k *kubectl) {
	createRunning(t, k)
	k.prints("hello there", "exec", "p", "-c", "c", "--", "hello", "there")
	k.fails(7, "it fails", "exec", "p", "-c", "c", "--", "exit", "7")
	k.fails(1, "container x is not valid for pod p", "exec", "p", "-c", "x", "--", "true")
	if out := k.okWith("typed\n", "exec", "-i", "p", "-c", "c", "--", "cat"); out != "typed\n" {
		t.Errorf("%q", out)
	}
}

// copyFiles: what is copied goes to a command's input.
func copyFiles(t *testing.T, k *kubectl) {
	createRunning(t, k)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.ok("cp", file, "p:/file", "-c", "c")
}

func attach(t *testing.T, k *kubectl) {
	createRunning(t, k)
	if out := k.okWith("typed\n", "attach", "-i", "p", "-c", "c"); out != "typed\n" {
		t.Errorf("%q", out)
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
