// Package operator runs an operator against a running mainstay. The operator uses controller-runtime (manager,
// leader election, caches, clients) and a kubebuilder-style definition. It creates a ConfigMap and a Deployment
// for each Site, updates the status, and cleans up with a finalizer.
package operator
