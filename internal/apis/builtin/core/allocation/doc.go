// Package allocation allocates addresses and ports to services, each to at most one service at a
// time. An allocation is a lock: a stored object that is created in the transaction of the
// service's write. The transaction fails if the object exists. The locks are the only record of
// allocations, so there is nothing to repair.
//
//   - band: the numbers of a range and the order in which they are tried.
//   - lock: the stored objects, their creation and deletion.
//   - cidr: the address ranges of ServiceCIDR objects.
//   - bitmap: kube-apiserver's record of ports, for stores that it created.
//
// Package core decides what a service needs.
package allocation
