// Package migrate copies all stored data from one backend to another: between the store in a data
// directory and etcd, in both directions. Values are copied byte by byte with their remaining TTL,
// without decoding, and verified by reading them back.
package migrate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Record is an entry with its time of expiry.
type Record struct {
	kv.Entry
	Expires time.Time // zero if the entry does not expire
}

// Visitor receives the entries of a store. The functions are called one at a time; if one of them returns an
// error, the read ends and returns this error.
type Visitor struct {
	// Begin is called once before the records, with the revision of the read; nil is ignored.
	Begin func(kv.Revision) error
	// Record is called for each entry, in ascending order of keys. It may retain the value.
	Record func(Record) error
}

// Store is a source or target of a copy. Its methods must not be called concurrently.
type Store interface {
	// CheckSource returns an error if Read would not pass all data of the store.
	CheckSource(ctx context.Context) error
	// Count returns the number of keys.
	Count(ctx context.Context) (int64, error)
	// Read passes all entries at one revision to a Visitor.
	Read(ctx context.Context, to Visitor) error
	// Fill replaces all entries with the entries that from passes to a Visitor. It may call from
	// more than once; the last call determines the result. It calls check with the written store
	// after all writes; a store that is replaced atomically is checked before the replacement.
	Fill(ctx context.Context, from func(Visitor) error, check func(Store) error) error
	// String returns the name of the store for messages.
	String() string
}

// Errors of Copy before its first write.
var (
	// ErrNotEmpty is returned if the target has entries and Options.Force is not set.
	ErrNotEmpty = errors.New("the target is not empty")
	// ErrForks is returned if the source retains earlier states for forks.
	ErrForks = errors.New("the store retains earlier states for forks, which are not copied")
	// ErrEmpty is returned if the source has no entries.
	ErrEmpty = errors.New("the source is empty")
)

// Options configure Copy.
type Options struct {
	// Force replaces the entries of a target that is not empty.
	Force bool
	// Progress is called after each key with the number of processed keys and the total number, in
	// the stages "copied" and "verified". nil is ignored.
	Progress func(stage string, done, total int64)
}

// Result describes a completed Copy.
type Result struct {
	// Keys is the number of copied keys, Bytes the total size of the keys and values.
	Keys, Bytes int64
	// Revision is the copied revision of the source.
	Revision kv.Revision
	// Sum is the SHA-256 hash of all keys and values that do not expire.
	Sum [sha256.Size]byte
}

// Copy replaces the entries of to with the entries of from, and verifies them by reading them back. It does
// not verify entries that expire, which may be gone by then.
// No other process may write to the stores. If nothing was written, the error wraps ErrEmpty, ErrNotEmpty or
// ErrForks, or is another error of CheckSource or Count. After other errors, a Dir is unchanged, and an Etcd
// may be incomplete (etcd.ErrIncomplete).
func Copy(ctx context.Context, from, to Store, options Options) (Result, error) {
	if err := from.CheckSource(ctx); err != nil {
		return Result{}, err
	}
	total, err := from.Count(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("count the keys in %s: %w", from, err)
	}
	if total == 0 {
		return Result{}, fmt.Errorf("%w: %s", ErrEmpty, from)
	}
	existing, err := to.Count(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("count the keys in %s: %w", to, err)
	}
	if existing > 0 && !options.Force {
		return Result{}, fmt.Errorf("%w: %s contains %d keys", ErrNotEmpty, to, existing)
	}
	if options.Progress == nil {
		options.Progress = func(string, int64, int64) {}
	}
	var read tally
	source := func(r Visitor) error {
		read = tally{sum: sha256.New()}
		err := from.Read(ctx, read.tee(r, func(n int64) { options.Progress("copied", n, total) }))
		if err != nil {
			return fmt.Errorf("read %s: %w", from, err)
		}
		return nil
	}
	check := func(written Store) error {
		back := tally{sum: sha256.New()}
		if err := written.Read(ctx, back.tee(Visitor{}, func(n int64) { options.Progress("verified", n, read.keys) })); err != nil {
			return fmt.Errorf("read back %s: %w", to, err)
		}
		return read.verify(&back, to)
	}
	if err := to.Fill(ctx, source, check); err != nil {
		return Result{}, err
	}
	return Result{Keys: read.keys, Bytes: read.bytes, Revision: read.revision, Sum: [sha256.Size]byte(read.sum.Sum(nil))}, nil
}

// tally contains the number and size of records, and the number and hash of the records that do not expire.
type tally struct {
	keys, bytes int64
	lasting     int64
	revision    kv.Revision
	sum         hash.Hash
}

// tee returns a Visitor that updates the tally and then calls the functions of r.
func (t *tally) tee(r Visitor, progress func(int64)) Visitor {
	return Visitor{
		Begin: func(at kv.Revision) error {
			t.revision = at
			if r.Begin == nil {
				return nil
			}
			return r.Begin(at)
		},
		Record: func(record Record) error {
			t.add(record)
			progress(t.keys)
			if r.Record == nil {
				return nil
			}
			return r.Record(record)
		},
	}
}

func (t *tally) add(r Record) {
	t.keys++
	t.bytes += int64(len(r.Key) + len(r.Value))
	if !r.Expires.IsZero() {
		return
	}
	t.lasting++
	var head []byte
	head = binary.AppendUvarint(head, uint64(len(r.Key)))
	head = append(head, r.Key...)
	head = binary.AppendUvarint(head, uint64(len(r.Value)))
	_, _ = t.sum.Write(head) // a hash.Hash returns no error
	_, _ = t.sum.Write(r.Value)
}

// verify returns an error if the tally differs from back, the tally of the records that were read back.
func (t *tally) verify(back *tally, target Store) error {
	if t.lasting == back.lasting && bytes.Equal(t.sum.Sum(nil), back.sum.Sum(nil)) {
		return nil
	}
	return fmt.Errorf("%s contains %d keys without expiry with checksum %x, but %d with %x were copied: another program writes to it, or it is damaged",
		target, back.lasting, back.sum.Sum(nil)[:8], t.lasting, t.sum.Sum(nil)[:8])
}
