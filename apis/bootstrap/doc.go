// Package bootstrap holds the objects that a cluster has from the start, as
// kube-apiserver v1.37 makes them, and sees to it that they are there:
// namespaces, the RBAC defaults, priority classes, the configuration of flow
// control, and the service of the API itself with its endpoints. It declares
// and writes; what the objects mean is known elsewhere.
//
// The declarations are in a file per kind. ensure.go brings them about, hooks.go
// says when, and endpoints.go publishes where the servers of a cluster are.
//
// Imports: codec, rest, storage.
package bootstrap
