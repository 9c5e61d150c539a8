// Package operator runs an operator as people write them today, with
// controller-runtime (manager, leader election, caches, clients) and a
// kubebuilder-style definition, against a running mainstay. The operator is a
// small real one: it keeps a ConfigMap and a Deployment for each Site, reports
// in the status, and cleans up behind a finalizer.
package operator
