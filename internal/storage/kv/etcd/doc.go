// Package etcd implements kv.Backend with an etcd cluster. Several servers can share the cluster,
// including kube-apiservers: the package uses kube-apiserver's keys, shared leases and compaction
// protocol, so a cluster can move from kube-apiserver to Mainstay and back. Values are opaque bytes;
// package storage encodes objects.
//
// Files:
//
//   - config: addresses and credentials; transport: certificates.
//   - store: lifecycle of the backend: open, await, health, close; alarms: restrictions of etcd.
//   - call: timeouts, retries and errors of requests.
//   - revision: the newest revision; concurrent callers share a request.
//   - read, stream: range reads at one revision, in pages or streamed; commit: transactions.
//   - lease: keys with similar expiry share a lease.
//   - watch, source: a watch is a bounded queue in front of an etcd watch. If the queue is full, the etcd
//     watch is closed; after the receiver has emptied the queue, it is reopened from history.
//   - compact: periodic compaction, by one of the servers that share the cluster.
//   - retain: held revisions and the times of revisions; both exist in this process only.
//   - snapshot: a snapshot in the format of etcdctl.
package etcd
