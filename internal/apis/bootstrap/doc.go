// Package bootstrap declares and reconciles the default objects of every cluster, as kube-apiserver
// creates them in the served version: namespaces, the RBAC defaults, priority classes, the
// configuration of flow control, and the service default/kubernetes with its endpoints.
//
// The declarations are in one file per kind. ensure.go creates, updates and deletes the objects,
// hooks.go runs the reconciliation, endpoints.go publishes the addresses of the servers of a
// cluster, and identity.go maintains the lease that identifies each server. On its first start, a
// server writes most objects from seed.go, which contains their recorded encodings.
package bootstrap
