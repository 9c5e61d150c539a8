// Package cluster tests the server with a real kube-controller-manager, a real kube-scheduler and simulated
// nodes. It runs workloads, kills the server, and deletes all objects. It repeats this for each division of the
// controllers between the server and kube-controller-manager, and counts the writes of both in the audit log.
//
// The test is skipped unless MAINSTAY_KUBERNETES_BINARIES names a folder with the executables of a Kubernetes
// release.
package cluster
