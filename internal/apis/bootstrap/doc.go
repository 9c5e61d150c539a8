// Package bootstrap declares and reconciles the default objects of every cluster, as kube-apiserver
// v1.37 creates them: namespaces, the RBAC defaults, priority classes, the configuration of flow
// control, and the service default/kubernetes with its endpoints.
//
// The declarations are in one file per kind. ensure.go creates, updates and deletes the objects,
// hooks.go schedules this, endpoints.go publishes the addresses of a cluster's servers, and
// identity.go maintains the lease that identifies each server. A first start writes most objects
// from seed.go, which contains their recorded encodings.
package bootstrap
