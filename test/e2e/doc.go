// Package e2e tests a running mainstay with real clients: kubectl, client-go and Helm. Each subtest is one
// visible behavior, in its own namespace. The behaviors of one client share a server and run in parallel.
// Tests that restart or kill the server have their own server.
//
// kubectl is k8s.io/kubectl linked into the test binary, which runs itself as a separate process:
// standard input and output, exit codes and the discovery cache are real.
//
// No kube-controller-manager is needed: the tests write the fields that its controllers would write.
package e2e
