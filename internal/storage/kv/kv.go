// Package kv is the contract between Mainstay and whatever keeps its bytes:
// keys, values and one growing revision counter, with the history of the
// recent past. It knows nothing of Kubernetes objects; everything about those
// is written once, above it, in package storage. A backend is a folder beside
// this file (embedded, etcd) and passes the suite in kvtest.
package kv

import (
	"context"
	"errors"
	"io"
	"time"
)

// Revision numbers a commit. The first commit of a store is greater than zero,
// each later one is greater than all before it, and a transaction that wrote
// nothing leaves it alone. Zero stands for "none" or "the newest", as each
// method says.
type Revision int64

// Entry is one key as of some revision.
type Entry struct {
	Key string
	// Value is immutable: neither the backend nor any reader changes it after
	// it was handed over, so it may be kept and shared.
	Value []byte
	// Created is the revision that put the key after it was last absent.
	Created Revision
	// Modified is the revision of the put that wrote Value.
	Modified Revision
}

// Errors of a Backend, to be tested with errors.Is.
var (
	// ErrCompacted: the revision asked for is older than the retained history.
	ErrCompacted = errors.New("revision has been compacted")
	// ErrFutureRevision: the revision asked for has not been reached.
	ErrFutureRevision = errors.New("revision is in the future")
	// ErrUnavailable: the backend cannot answer now (no quorum, disk trouble);
	// nothing was decided about a read. A write may or may not have happened.
	ErrUnavailable = errors.New("storage backend is unavailable")
	// ErrNoSpace: the disk is full. Nothing was written; reads still work, and
	// deletions may.
	ErrNoSpace = errors.New("no space left for the store")
	// ErrTooLarge: a commit is larger than the backend takes. Nothing was
	// written.
	ErrTooLarge = errors.New("request is too large")
	// ErrCorrupt: what is on disk is not what was written.
	ErrCorrupt = errors.New("store is corrupt")
	// ErrClosed: the backend has been closed.
	ErrClosed = errors.New("store is closed")
)

// RangeRequest asks for the keys of [Start, End) in ascending byte order.
type RangeRequest struct {
	Start, End string
	// At is the revision to read at; 0 reads the newest.
	At Revision
	// Limit ends the answer after that many entries; 0 means no limit.
	Limit int
	// CountOnly leaves Entries empty and fills Count alone.
	CountOnly bool
	// Counted asks for Count even where Limit cuts the answer short, which may
	// take as long as reading all keys of the range.
	Counted bool
}

// RangeResult answers a RangeRequest. The caller owns the slice.
type RangeResult struct {
	Entries []Entry
	// Revision is the revision the answer is true for: At, or the newest.
	Revision Revision
	// More says that Limit cut the answer short.
	More bool
	// Count is how many keys the whole range holds, whatever the limit. Where
	// More is set and Counted was not, it may be 0 instead.
	Count int64
}

// Op is one key of a transaction: what must hold of it, and what becomes of it.
type Op struct {
	Key string
	// Expect is the Modified revision that the key must have; 0 requires that
	// it does not exist. AnyRevision requires nothing.
	Expect Revision
	// Kind says what happens to the key when every Expect of the transaction
	// holds.
	Kind OpKind
	// Value is written by OpPut. The backend keeps the slice: the caller must
	// not change it afterwards.
	Value []byte
	// TTL, where positive, removes the key that long after the commit, to the
	// second, with an event as any other deletion. A later put without TTL
	// makes the key permanent.
	TTL time.Duration
	// Removing marks an OpPut as a step of a deletion: what is put waits for
	// its finalizers or its grace period. A backend short of space may take it
	// where it takes deletions only.
	Removing bool
	// Note travels with the commit to watchers in this process, so that they
	// need not decode what the writer has at hand. It is a hint: a watcher may
	// get the event with a nil Note (another process wrote it, or history was
	// read from disk).
	Note any
}

// OpKind is what an Op does.
type OpKind uint8

const (
	// OpPut writes Value.
	OpPut OpKind = iota
	// OpDelete removes the key; removing an absent key changes nothing.
	OpDelete
	// OpCheck only checks Expect.
	OpCheck
)

// MaxHold is how long a hold lasts at most: one whose holder was forgotten must
// not keep history for ever.
const MaxHold = time.Hour

// AnyRevision as Op.Expect accepts whatever the key's state is.
const AnyRevision Revision = -1

// CommitResult says how a transaction ended.
type CommitResult struct {
	// Committed is true when every Expect held and the writes are durable.
	Committed bool
	// Revision is that of the commit, or, where nothing was written, the
	// newest revision the decision was made at.
	Revision Revision
	// Current holds, where Committed is false, the entry found for each Op in
	// order, nil where the key is absent.
	Current []*Entry
}

// Event is one change of one key.
type Event struct {
	Key      string
	Revision Revision
	// Value is what was put; nil for a deletion. Immutable.
	Value []byte
	// Deleted marks a deletion (by a client or by TTL).
	Deleted bool
	// Created is the creation revision of the entry put; for a put, Created ==
	// Revision means that the key was new.
	Created Revision
	// Prev is the entry before the change, nil when the key was absent.
	// Immutable.
	Prev *Entry
	// Note is the Op's, or nil.
	Note any
}

// Batch is what a watch delivers at a time: all events of one or more whole
// commits, in order of revision. A revision is never split over two batches.
type Batch struct {
	// Events may be empty: then the batch only reports progress.
	Events []Event
	// Revision: every event of the watched range with a revision up to this
	// one has been delivered.
	Revision Revision
}

// PrefixRevisioner is a Backend that no other process writes to, which therefore knows
// how new a part of it is.
type PrefixRevisioner interface {
	// PrefixRevision returns a revision that no acknowledged commit of a key with a prefix,
	// which ends with a slash, is newer than.
	PrefixRevision(ctx context.Context, prefix string) (Revision, error)
}

// Watch is an open watch. Batches is closed when the watch ends; Err then
// returns why: nil after the context's end or Stop, ErrCompacted, ErrClosed or
// the backend's trouble otherwise. Events are complete and in order up to the
// last batch.
type Watch interface {
	Batches() <-chan Batch
	Err() error
	// Stop ends the watch and frees what it holds; it may be called more than
	// once, concurrently with everything.
	Stop()
}

// Backend keeps entries. All methods may be called concurrently. Reads are
// linearizable: they see every commit acknowledged before they began.
type Backend interface {
	// Get returns the entry of a key at a revision (0: the newest), or nil
	// when there is none, and the revision that is true for.
	Get(ctx context.Context, key string, at Revision) (*Entry, Revision, error)

	// Range reads many keys at one revision.
	Range(ctx context.Context, req RangeRequest) (RangeResult, error)

	// Commit applies all ops at one new revision, or none of them. It returns
	// after the writes are durable. No key may stand in two ops.
	//
	// An error means that the outcome is unknown, unless it is ErrNoSpace or
	// ErrTooLarge, or the context had ended before the call. Keys and values
	// of less than 1.5 MiB together, less a few KiB, are not too large.
	Commit(ctx context.Context, ops ...Op) (CommitResult, error)

	// Watch delivers every event of [start, end) with a revision of at least
	// from; 0 means: from the next commit on. The watch is established when
	// the call returns. A watcher that does not receive is not waited for:
	// it is given what it missed from history, and ErrCompacted when that is
	// gone.
	Watch(ctx context.Context, start, end string, from Revision) (Watch, error)

	// CurrentRevision returns the newest revision: everything acknowledged
	// before the call has this revision or an older one.
	CurrentRevision(ctx context.Context) (Revision, error)

	// RequestProgress makes every open watch of this backend deliver, soon, a
	// batch whose Revision is at least the newest revision as of the call. Without
	// it, one that has no events need not say how far it is.
	RequestProgress(ctx context.Context) error

	// Compact forgets history before a revision: values replaced or deleted at
	// or before it can no longer be read, reads and watches older than it get
	// ErrCompacted. The newest state is never affected.
	//
	// It goes no further than the oldest revision that is held, and returns nil
	// then, too; the rest is forgotten soon after the hold has ended.
	Compact(ctx context.Context, before Revision) error

	// CompactedRevision returns the revision that history was compacted to, 0
	// if it never was.
	CompactedRevision(ctx context.Context) (Revision, error)

	// Hold keeps a revision (0: the newest) readable, whatever Compact and the
	// backend's own retention would forget, and returns which one that is.
	// Until the hold ends, Get and Range answer at that revision and every later
	// one, and Watch delivers from any of them on. The error is ErrCompacted
	// where the revision is gone, and ErrFutureRevision where it has not been
	// reached.
	//
	// A hold ends with the first of: release, the end of ctx, MaxHold, and Close.
	// release may be called more than once, concurrently with everything. Who
	// needs a revision for longer than MaxHold holds it again before the first
	// hold has ended. A revision may be held any number of times; it is kept
	// until the last of these holds has ended.
	//
	// Holds are those of this process. They do not outlive it, and where several
	// processes share a backend (etcd), another one may compact what is held
	// here: reads then get ErrCompacted before the hold has ended.
	Hold(ctx context.Context, at Revision) (held Revision, release func(), err error)

	// RevisionAt returns the newest revision that is known to be no newer than a
	// time. Commits of about the last minute before that time may be missing,
	// more where the backend says so; none after it is included. For a time that
	// is not in the past, it is the newest revision. The error is ErrCompacted
	// where history, or what is known of its times, does not go back that far.
	//
	// Times are those of the clock of the machine the backend runs on when the
	// commits were made. While that clock was wrong, so are they; a clock that
	// was set back makes answers older, and never newer, than they should be.
	//
	// The revision is not held: it may be compacted before it is read.
	RevisionAt(ctx context.Context, t time.Time) (Revision, error)

	// Snapshot writes a consistent copy of the store as of one revision, which
	// it returns, while reads and writes go on. The format is the backend's.
	Snapshot(ctx context.Context, w io.Writer) (Revision, error)

	// Health returns nil when the backend can serve reads and writes now.
	Health(ctx context.Context) error

	// Close ends watches with ErrClosed, waits for commits under way, syncs,
	// and frees everything. Later calls return ErrClosed.
	Close() error
}

// PrefixEnd returns the end of the range of all keys that start with prefix:
// the smallest key greater than all of them, or "" (no end) when there is none.
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
