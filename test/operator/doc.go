// Package operator tests an operator with controller-runtime (manager, leader election, caches,
// clients) and a kubebuilder-style definition against a running mainstay. The operator creates a
// ConfigMap and a Deployment for each Site, updates the status, and cleans up with a finalizer.
package operator
