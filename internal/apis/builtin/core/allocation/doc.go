// Package allocation allocates addresses and ports to services, each to at most one service at a
// time. An allocation is a lock: an object that is created in the transaction of the write of the
// service. The transaction fails if the object exists. The locks are the only record of
// allocations, so no repair is necessary.
//
//   - range.go: ranges of numbers, and the order in which they are tried.
//   - lock.go: the locks, their creation and deletion.
//   - cidr.go: the address ranges in ServiceCIDR objects.
//   - bitmap.go: the record of ports that kube-apiserver uses.
//
// Package core determines the addresses and ports that a service needs.
package allocation
