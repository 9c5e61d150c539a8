// Package upstream runs the public test suites of kube-apiserver's storage layer,
// k8s.io/apiserver/pkg/storage/testing, against Mainstay's storage. It is a separate module, because no other
// package may import k8s.io/apiserver.
//
// Store adapts a storage.Interface to upstream's interface: it uses keys instead of names, internal objects
// instead of records, and upstream's errors. docs/internals/upstream-suites.md lists, with reasons, the
// subtests that do not apply because of Mainstay's design. The tests read this table and skip its entries.
//
// Other tests compare encryption at rest and audit events with kube-apiserver. For encryption, each
// implementation must read the values of the other, and both must reject the same files.
package upstream
