// Package allocation allocates addresses and ports to services. Each address and port is allocated to at most
// one service at a time. An allocation is a lock, which is an object that is created in the transaction that
// writes the service. The transaction fails if the object already exists. The locks are the only record of
// allocations, so the allocations never need to be repaired.
//
//   - range.go: ranges of numbers, and the order in which they are tried.
//   - lock.go: creation and deletion of locks.
//   - cidr.go: the address ranges in ServiceCIDR objects.
//   - bitmap.go: the record of ports that kube-apiserver uses.
//
// Package core determines which addresses and ports a service needs.
package allocation
