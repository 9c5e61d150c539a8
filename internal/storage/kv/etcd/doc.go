// Package etcd is a kv.Backend over an etcd cluster: many servers may share it,
// kube-apiservers among them. It keeps to what kube-apiserver does there (keys
// as they are given, shared leases, the compaction protocol), so that an
// existing cluster's etcd can be taken over and given back. It stores bytes;
// what stands in them is the business of package storage.
//
// The concepts, each in the file of its name:
//
//   - config: where etcd is, and how to be let in; transport: certificates.
//   - store: life of the backend: open, await, health, close; alarms: what etcd
//     refuses to do.
//   - call: how long a request may take, when it is repeated, what its error is
//     called.
//   - revision: the newest revision, asked for once by all who wait for it.
//   - read, stream, commit: ranges of one revision, in pages or streamed; compare-and-put.
//   - lease: keys that expire about together share a lease.
//   - watch, source: a watch is a bounded queue in front of one of etcd's; one
//     that has no receiver is closed and taken up again from history.
//   - compact: one of the servers on a cluster forgets history for all.
//   - retain: revisions that are held against compaction, and times of revisions;
//     both known to this process only.
//   - snapshot: a copy in etcd's own format.
package etcd
