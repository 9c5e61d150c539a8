// Package etcd implements kv.Backend with an etcd cluster. Several servers can share the cluster,
// including kube-apiservers: the package follows kube-apiserver's conventions (unchanged keys,
// shared leases, the compaction protocol), so an existing cluster's etcd can be taken over and
// returned. Values are opaque bytes; package storage encodes objects.
//
// The concepts, each in a file of the same name:
//
//   - config: addresses and credentials; transport: certificates.
//   - store: lifecycle of the backend: open, await, health, close; alarms: restrictions of etcd.
//   - call: timeouts, retries and errors of requests.
//   - revision: the newest revision; concurrent callers share a request.
//   - read, stream, commit: ranges of one revision, in pages or streamed; compare-and-put.
//   - lease: keys with similar expiry share a lease.
//   - watch, source: a watch is a bounded queue in front of an etcd watch, which is closed while the receiver does not read, and reopened from history.
//   - compact: one of the servers compacts history for all.
//   - retain: revisions held against compaction, and the times of revisions; both are known to this process only.
//   - snapshot: a copy in etcd's own format.
package etcd
