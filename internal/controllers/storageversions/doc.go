// Package storageversions maintains StorageVersions, in which servers that share a store publish the storage
// version of each resource (KEP-2339). Each server has a Reporter, which writes the entries of this server. One
// server runs a Collector, which removes the entries of servers that no longer exist, like
// kube-controller-manager's storageversion-garbage-collector-controller.
package storageversions
