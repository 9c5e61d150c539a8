// Package cluster runs a real kube-controller-manager and a real kube-scheduler against the server, with nodes that
// are made up: workloads become pods that run, the server is killed in the middle, and everything is cleaned up. It
// does so with each way of sharing the work between the server's own controllers and kube-controller-manager's, and
// counts in the audit log what both of them did.
//
// It is skipped unless MAINSTAY_KUBERNETES_BINARIES names a folder with the programs of a release.
package cluster
