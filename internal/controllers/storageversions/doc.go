// Package storageversions maintains StorageVersions, in which servers with a common store publish
// the storage version of each resource (KEP-2339). Each server has a Reporter, which writes its own
// entries. One server runs a Collector, which removes the entries of removed servers, like
// kube-controller-manager's storageversion-garbage-collector-controller.
package storageversions
