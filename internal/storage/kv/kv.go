// Package kv defines the interface of a key-value store with a single increasing revision counter and recent
// history. It is independent of Kubernetes objects, which package storage adds. Each backend is a package
// below this one (embedded, etcd), and must pass the test suite in kvtest.
package kv

import (
	"context"
	"errors"
	"io"
	"time"
)

// Revision is the number of a commit. Revisions are positive and increase with each commit. A transaction
// without writes does not create a revision. Each method documents the meaning of zero, which is either no
// revision or the newest revision.
type Revision int64

// Entry is a key with its value at a revision.
type Entry struct {
	Key string
	// Value is immutable and may be retained and shared.
	Value []byte
	// Created is the revision of the put that created the key, or that recreated it after its last deletion.
	Created Revision
	// Modified is the revision of the put that wrote Value.
	Modified Revision
}

// Errors of a Backend, to be tested with errors.Is.
var (
	// ErrCompacted reports that the requested revision is older than the retained history.
	ErrCompacted = errors.New("revision has been compacted")
	// ErrFutureRevision reports that the requested revision does not exist yet.
	ErrFutureRevision = errors.New("revision is in the future")
	// ErrUnavailable reports that the backend is temporarily unavailable (no quorum, disk errors). If a write
	// returns it, the outcome of the write is unknown.
	ErrUnavailable = errors.New("storage backend is unavailable")
	// ErrNoSpace reports that the disk is full. The write was not applied. Reads still work, and deletions
	// might.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrTooLarge reports that a commit exceeds the backend's maximum commit size. The write was not applied.
	ErrTooLarge = errors.New("request is too large")
	// ErrCorrupt reports that the data on disk differs from the data that was written.
	ErrCorrupt = errors.New("store is corrupt")
	// ErrClosed reports that the backend was closed.
	ErrClosed = errors.New("store is closed")
)

// CompactedError wraps ErrCompacted and has a message for clients.
type CompactedError struct{ Message string }

func (e *CompactedError) Error() string { return e.Message }

// Unwrap returns ErrCompacted.
func (e *CompactedError) Unwrap() error { return ErrCompacted }

// RangeRequest requests the keys of [Start, End) in ascending byte order.
type RangeRequest struct {
	Start, End string
	// At is the revision to read at; 0 reads the newest revision.
	At Revision
	// Limit is the maximum number of returned entries; 0 means no limit.
	Limit int
	// CountOnly requests only the count; the result has no entries.
	CountOnly bool
	// WithCount requests Count even if Limit truncates the result. Counting may take as long as reading all
	// keys of the range.
	WithCount bool
}

// RangeResult is the result of a RangeRequest. The caller owns the slice.
type RangeResult struct {
	Entries []Entry
	// Revision is the revision that was read, which is At or, if At is 0, the newest revision.
	Revision Revision
	// More reports whether Limit truncated the result.
	More bool
	// Count is the number of keys in the range, regardless of the limit. Count may be 0 if the result is
	// truncated and WithCount was not set.
	Count int64
}

// Op is one operation of a transaction. It has a precondition on a key and a change to the key.
type Op struct {
	Key string
	// Expect is the required Modified revision of the key; 0 requires that the key does not exist.
	// AnyRevision accepts any state.
	Expect Revision
	// Kind is the change that is made if every Expect of the transaction is satisfied.
	Kind OpKind
	// Value is written by OpPut. The backend takes ownership of the slice.
	Value []byte
	// TTL is the time from the commit to the removal of the key, rounded to seconds; 0 means that the key
	// does not expire. Watches receive an event for the removal, as for any other deletion. A later put
	// without TTL makes the key permanent.
	TTL time.Duration
	// Removing marks an OpPut as a step of a deletion that waits for finalizers or a grace period. A backend
	// that is short of space and accepts only deletions may also accept such a put.
	Removing bool
	// Origin describes who made the commit, in the encoding of package origin. The first non-empty Origin of
	// the ops applies to the whole commit. A backend may store the origin for its watches, or ignore it.
	Origin []byte
	// Note is passed to the watches of this process, so that their receivers need not decode the value. It is
	// only a hint: the Note of an event may be nil if another process made the commit, or if the event was
	// read from the history on disk.
	Note any
}

// OpKind is the kind of change that an Op makes.
type OpKind uint8

const (
	// OpPut writes Value.
	OpPut OpKind = iota
	// OpDelete removes the key. It has no effect if the key does not exist.
	OpDelete
	// OpCheck only checks Expect.
	OpCheck
)

// MaxHold is the maximum duration of a hold, so that a leaked hold does not retain history forever.
const MaxHold = time.Hour

// AnyRevision is a value of Op.Expect that accepts any state of the key.
const AnyRevision Revision = -1

// CommitResult is the result of a transaction.
type CommitResult struct {
	// Committed is true if every Expect was satisfied. The writes are then durable.
	Committed bool
	// Revision is the revision of the commit or, if nothing was written, the newest revision when the
	// conditions were checked.
	Revision Revision
	// Current is set if Committed is false. It contains the current entry of the key of each op, in the order
	// of the ops, or nil for a key that does not exist. The entries are immutable.
	Current []*Entry
}

// Event is one change of one key.
type Event struct {
	Key      string
	Revision Revision
	// Value is the written value, or nil for a deletion. It is immutable.
	Value []byte
	// Deleted is set if a client deleted the key or its TTL has expired.
	Deleted bool
	// Created is the creation revision of the written entry. For a put, it equals Revision if the
	// key did not exist before.
	Created Revision
	// Expires is the expiration time of the written entry, in Unix seconds. It is 0 if the entry does not
	// expire, or if the backend does not report expirations.
	Expires int64
	// Prev is the entry before the change, or nil if the key did not exist. It is immutable.
	Prev *Entry
	// Origin is the Origin of the commit, or nil if it is unknown. It is immutable.
	Origin []byte
	// Note is the Note of the Op, or nil.
	Note any
}

// Batch is one delivery of a watch. It contains all events of one or more commits in the range of the watch,
// in order of revision. The events of a revision are never split across batches.
type Batch struct {
	// Events may be empty. The batch then only reports progress.
	Events []Event
	// Revision is the progress of the watch. All events up to this revision are in this batch or in earlier
	// batches.
	Revision Revision
}

// PrefixRevisioner is a Backend that can determine the newest revision of a key prefix, because only one
// process writes to it.
type PrefixRevisioner interface {
	// PrefixRevision returns a revision that is at least the revision of every acknowledged commit of a key
	// with the prefix. prefix must end with a slash. PrefixRevision sends no request to another process. ok
	// is false if only another process can determine the revision, for example because the Backend decorates
	// a remote one. The error is ErrClosed or ErrUnavailable.
	PrefixRevision(ctx context.Context, prefix string) (revision Revision, ok bool, err error)
}

// PrefixRevision calls b.PrefixRevision if b is a PrefixRevisioner, and returns its error. For other
// backends, ok is false.
func PrefixRevision(ctx context.Context, b Backend, prefix string) (revision Revision, ok bool, err error) {
	if r, ok := b.(PrefixRevisioner); ok {
		return r.PrefixRevision(ctx, prefix)
	}
	return 0, false, nil
}

// Watch is an open watch. Batches is closed when the watch ends. Err then returns nil if the watch was ended
// by Stop or by its context, and otherwise ErrCompacted, ErrClosed or another error of the backend. Events
// are complete and in order up to the last batch. Only one goroutine may receive from Batches; it calls Err
// after Batches is closed.
type Watch interface {
	Batches() <-chan Batch
	Err() error
	// Stop ends the watch and releases its resources. It is idempotent and safe for concurrent use.
	Stop()
}

// Notifier is a Watch that announces its batches, so that a waiting receiver needs no goroutine.
type Notifier interface {
	// Notify makes the watch call f after it has sent a batch to Batches or has closed Batches. Spurious
	// calls are possible. Batches may already contain a batch when Notify is called. f is called from any
	// goroutine and with locks held, so it must neither block nor use the watch. Notify must be called at
	// most once.
	Notify(f func())
}

// Backend stores entries. All methods are safe for concurrent use. Reads are linearizable: they see
// all commits that were acknowledged before the call.
type Backend interface {
	// Get returns the entry of a key at a revision, or nil if the key does not exist, and the
	// revision of the read. Revision 0 means the newest revision. The error is ErrCompacted or
	// ErrFutureRevision if the revision is not available. The entry is immutable.
	Get(ctx context.Context, key string, at Revision) (*Entry, Revision, error)

	// Range reads the keys of a range at one revision. It returns the same errors as Get.
	Range(ctx context.Context, req RangeRequest) (RangeResult, error)

	// Commit applies all ops at one new revision, or none of them. It returns after the writes are durable.
	// Each key may occur in only one op. After an error, the outcome is unknown, unless the error is
	// ErrNoSpace or ErrTooLarge, or the context had ended before the call. A commit is never too large if its
	// keys and values have a total size of at most 1.5 MiB minus a few KiB.
	Commit(ctx context.Context, ops ...Op) (CommitResult, error)

	// Watch delivers all events of the keys in [start, end) with a revision of at least from; if from is 0,
	// it starts with the next commit. The watch is established when the call returns. A slow receiver does
	// not block other receivers: the events that it missed are read from history, and its watch ends with
	// ErrCompacted if they were compacted.
	Watch(ctx context.Context, start, end string, from Revision) (Watch, error)

	// CurrentRevision returns the newest revision, which is at least the revision of every commit that was
	// acknowledged before the call.
	CurrentRevision(ctx context.Context) (Revision, error)

	// RequestProgress requests that each open watch of this backend promptly deliver a batch whose Revision
	// is at least the newest revision at the time of the call. Without such a request, a watch without events
	// need not report its progress.
	RequestProgress(ctx context.Context) error

	// Compact removes the history before a revision. Values that were replaced or deleted at or before this
	// revision become unreadable, and reads and watches at older revisions return ErrCompacted. The newest
	// state is never affected. The error is ErrFutureRevision if the revision does not exist yet. If an older
	// revision is held, Compact stops at the oldest held revision and also returns nil; the remaining history
	// is removed soon after the hold ends.
	Compact(ctx context.Context, before Revision) error

	// CompactedRevision returns the revision of the newest compaction, or 0 if history was never
	// compacted.
	CompactedRevision(ctx context.Context) (Revision, error)

	// Hold protects a revision from Compact and from the backend's retention, and returns the revision.
	// Revision 0 means the newest revision. Until the hold ends, Get and Range can read the held revision and
	// all later ones, and Watch can start from them. The error is ErrCompacted if the revision was compacted,
	// and ErrFutureRevision if it does not exist yet. A hold ends when release is called, when ctx ends,
	// after MaxHold, or when the backend is closed, whichever comes first. release is idempotent and safe for
	// concurrent use. To extend a hold beyond MaxHold, hold the revision again before the first hold ends. A
	// revision may have several holds and remains readable until all of them have ended. Holds belong to this
	// process and end with it. If several processes share a backend (etcd), another process may compact a
	// held revision; reads then return ErrCompacted.
	Hold(ctx context.Context, at Revision) (held Revision, release func(), err error)

	// RevisionAt returns the newest known revision that is not newer than the given time. It may miss the
	// commits of about the last minute before that time, or more if the backend documents this, but never
	// includes a later commit. For a time that is not in the past, it returns the newest revision. The error
	// is ErrCompacted if the history, or the record of its times, does not reach back that far. The time of a
	// commit is measured by the backend's clock. If the clock is set back, the result may be too old, but
	// never too new. The revision is not held, so it may be compacted before it is read.
	RevisionAt(ctx context.Context, t time.Time) (Revision, error)

	// Snapshot writes a consistent copy of the store to w and returns its revision. Concurrent reads
	// and writes are not blocked. The format is specific to the backend.
	Snapshot(ctx context.Context, w io.Writer) (Revision, error)

	// Health returns nil if the backend can serve reads and writes, and the reason otherwise.
	Health(ctx context.Context) error

	// Close ends all watches with ErrClosed, waits for running commits, and releases all resources. After
	// Close, all methods return ErrClosed.
	Close() error
}

// PrefixEnd returns the end of the range of all keys with a prefix. This is the smallest key that is greater
// than all of them, or "", which means no end, if there is no such key.
func PrefixEnd(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}
