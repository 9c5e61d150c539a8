// Package bootstrap declares and reconciles the objects that every cluster has, as
// kube-apiserver v1.37 creates them: namespaces, the RBAC defaults, priority classes, the
// configuration of flow control, and the service default/kubernetes with its endpoints.
//
// The declarations are in a file per kind. ensure.go creates, updates and retires them,
// hooks.go schedules that, endpoints.go publishes the addresses of a cluster's servers, and
// identity.go the lease by which each of them is known. A first start takes most of what it
// creates from seed.go, as it was once recorded.
package bootstrap
