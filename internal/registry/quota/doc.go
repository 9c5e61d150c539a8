// Package quota is what ResourceQuotas are about: what objects use, what quotas allow,
// and the account of it, which is written with the objects.
//
//   - usage, pod, claim, deviceclaim: what an object of each kind uses, by the names that quotas
//     have for it. Everything else is counted.
//   - scope: which objects a quota is for.
//   - limits: whether what a write asks for is allowed, in kube-apiserver's words.
//   - ledger: the quotas of all namespaces, in memory.
//   - account: a storage whose writes charge and release quotas in their own transactions (ADR 26).
//   - recount: the use of a namespace, counted.
package quota
