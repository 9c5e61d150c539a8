// Package bootstrap declares and reconciles the default objects of every cluster. They are the objects that the
// served version of kube-apiserver creates: namespaces, RBAC roles and bindings, priority classes, the
// configuration of flow control, and the service default/kubernetes with its endpoints.
//
// The declarations are in one file per kind. ensure.go creates, updates and deletes the objects, hooks.go runs
// the reconciliation, endpoints.go publishes the addresses of the servers of a cluster, and identity.go
// maintains the lease that identifies each server. If the store is empty, a server writes most objects from
// recorded encodings (see seed.go).
package bootstrap
