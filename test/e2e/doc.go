// Package e2e drives a running mainstay with the clients that people use: kubectl, client-go and Helm, each as its own
// code and not an imitation. A subtest is one behaviour that a user would notice, in a namespace of its own; behaviours of
// one client share a server and run side by side. Tests that restart or kill the server have one for themselves.
//
// kubectl is k8s.io/kubectl built into the test binary, which runs itself again as a separate process: standard input and
// output, exit codes and discovery cache are those of the real thing.
//
// No controllers are needed: where a behaviour reads what a controller would have written, the test writes it.
package e2e
