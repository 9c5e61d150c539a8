// Package cluster tests the server with a real kube-controller-manager and a real kube-scheduler,
// and simulated nodes: the pods of workloads run, the server is killed during that, and all objects
// are deleted again. It does so with every division of work between the server's own controllers
// and kube-controller-manager's, and counts the requests of both in the audit log.
//
// It is skipped unless MAINSTAY_KUBERNETES_BINARIES names a folder with the programs of a release.
package cluster
