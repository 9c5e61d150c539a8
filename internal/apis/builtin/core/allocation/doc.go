// Package allocation gives services addresses and ports, each to one service at a
// time. What is given out is a lock: a stored object that is created in the
// transaction of the service's write, which fails where the object exists. So
// there is no other account of what is free, and nothing to repair.
//
//   - band: which numbers a range has, and the order in which they are tried.
//   - lock: the stored objects, claimed and released.
//   - cidr: the ranges of addresses, which ServiceCIDR objects say.
//   - bitmap: kube-apiserver's account of ports, kept where it left one.
//
// It does not know what a service needs: that is the row's (package core).
package allocation
