// Package upstream runs the public test suites of kube-apiserver's storage layer, k8s.io/apiserver/pkg/storage/testing,
// against ours. It is a module of its own, because nothing else here may import k8s.io/apiserver.
//
// Store makes a storage.Interface look like upstream's: keys for names, internal objects for records, its errors for
// ours. What the suites expect of upstream's storage and ours does by design elsewhere, or not at all, is listed with
// reasons in docs/upstream-suites.md. That table is read by the tests, and what stands there is skipped.
//
// Encryption at rest is compared with kube-apiserver's: each reads what the other has written, and refuses the same files.
package upstream
