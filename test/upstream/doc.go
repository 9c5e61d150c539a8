// Package upstream runs the public test suites of kube-apiserver's storage layer,
// k8s.io/apiserver/pkg/storage/testing, against Mainstay's storage. It is a separate module, because no other
// package may import k8s.io/apiserver.
//
// Store adapts a storage.Interface to upstream's interface, which uses keys instead of names, internal objects
// instead of records, and its own errors. docs/internals/upstream-suites.md lists the subtests that do not
// apply because of Mainstay's design, with the reasons. The tests read this list and skip its entries.
//
// Other tests compare encryption at rest and audit events with kube-apiserver. For encryption, each
// implementation must be able to read the values that the other has written, and both must reject the same
// configuration files.
package upstream
