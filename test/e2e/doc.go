// Package e2e tests a running mainstay with real clients: kubectl, client-go and Helm. Each subtest tests one
// visible behavior in its own namespace. The subtests of one client share a server and run in parallel. Tests
// that restart or kill the server have their own server.
//
// kubectl is k8s.io/kubectl linked into the test binary. The test binary runs itself as a separate process, so
// standard input and output, exit codes and the discovery cache are real.
//
// The tests do not need kube-controller-manager: they write the fields that its controllers would write.
package e2e
