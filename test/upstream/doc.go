// Package upstream runs the public test suites of kube-apiserver's storage layer,
// k8s.io/apiserver/pkg/storage/testing, against Mainstay's. It is a separate module, because no
// other package may import k8s.io/apiserver.
//
// Store adapts a storage.Interface to upstream's: keys instead of names, internal objects instead
// of records, upstream's errors. docs/internals/upstream-suites.md lists, with reasons, the subtests that do
// not apply because of Mainstay's design. The tests read this table and skip its entries.
//
// Encryption at rest is compared with kube-apiserver's: each implementation reads the other's
// values, and rejects the same files.
package upstream
