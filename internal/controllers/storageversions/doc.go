// Package storageversions keeps the StorageVersions, by which servers that share a store
// tell others in which versions they store each resource (KEP-2339): a Reporter writes what
// its server does, in each server; a Collector removes what is said of servers that are
// gone, in one of them, as kube-controller-manager's
// storageversion-garbage-collector-controller does.
package storageversions
