// Package quota implements ResourceQuotas: the usage of objects, the limits, and an account of the
// usage that is written in the same transaction as the objects.
//
//   - usage, pod, claim: the usage of an object of each kind, by quota resource name. Objects of other
//     kinds are only counted.
//   - scope: the objects of a quota.
//   - limits: whether a write is allowed, with kube-apiserver's messages.
//   - ledger: the quotas of all namespaces, in memory.
//   - account: a storage decorator that charges and releases quotas in the transaction of each write
//     (ADR 26).
//   - recount: the usage of a namespace, recalculated.
package quota
