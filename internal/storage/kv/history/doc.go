// Package history holds what the backends of package kv share in deciding how
// far back their history goes: marks, which relate revisions to times, and
// holds, which are revisions that readers still need. It does no I/O and reads
// no clock but the monotonic one; whatever is stored, the backend stores.
package history
