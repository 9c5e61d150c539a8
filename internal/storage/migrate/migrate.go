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

// Record is an entry and when it expires, if it does.
type Record struct {
	kv.Entry
	Expires time.Time // zero: never
}

// Reader receives the entries of a place. An error of its functions ends the read.
type Reader struct {
	// Begin is called once before the records, with the revision they are of.
	Begin func(kv.Revision) error
	// Record is called for each, in ascending order of key.
	Record func(Record) error
}

// Place is a source or target of a copy.
type Place interface {
	// Count returns how many keys there are.
	Count(ctx context.Context) (int64, error)
	// Read passes all entries at one revision to a Reader.
	Read(ctx context.Context, to Reader) error
	// Fill replaces all entries by the entries that from reads. It may call from more than once;
	// the last call counts. It calls check with the place to verify, after all writes and, if the
	// place is replaced atomically, before the replacement.
	Fill(ctx context.Context, from func(Reader) error, check func(Place) error) error
	// String names the place for messages.
	String() string
}

// Errors of Copy before its first write.
var (
	// ErrNotEmpty: the target has entries.
	ErrNotEmpty = errors.New("the target is not empty")
	// ErrNothing: the source has no entries.
	ErrNothing = errors.New("the source is empty")
)

// Options of a Copy.
type Options struct {
	// Force allows a target that is not empty.
	Force bool
	// Progress is called with the numbers of keys done and in total, in the
	// stages "copied" and "verified". It may be nil.
	Progress func(stage string, done, total int64)
}

// Result describes a completed Copy.
type Result struct {
	Keys, Bytes int64
	// Revision of the source that was copied.
	Revision kv.Revision
	// Sum is the SHA-256 over all keys and values.
	Sum [sha256.Size]byte
}

// Copy replaces the entries of a place by the entries of another, and verifies them.
func Copy(ctx context.Context, from, to Place, options Options) (Result, error) {
	total, err := from.Count(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("count the keys in %s: %w", from, err)
	}
	if total == 0 {
		return Result{}, fmt.Errorf("%w: %s", ErrNothing, from)
	}
	there, err := to.Count(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("count the keys in %s: %w", to, err)
	}
	if there > 0 && !options.Force {
		return Result{}, fmt.Errorf("%w: %s contains %d keys", ErrNotEmpty, to, there)
	}
	if options.Progress == nil {
		options.Progress = func(string, int64, int64) {}
	}
	var read tally
	source := func(r Reader) error {
		read = tally{sum: sha256.New()}
		err := from.Read(ctx, read.in(r, func(n int64) { options.Progress("copied", n, total) }))
		if err != nil {
			return fmt.Errorf("read %s: %w", from, err)
		}
		return nil
	}
	check := func(written Place) error {
		back := tally{sum: sha256.New()}
		if err := written.Read(ctx, back.in(Reader{}, func(n int64) { options.Progress("verified", n, read.keys) })); err != nil {
			return fmt.Errorf("read back %s: %w", to, err)
		}
		return read.same(&back, to)
	}
	if err := to.Fill(ctx, source, check); err != nil {
		return Result{}, err
	}
	return Result{Keys: read.keys, Bytes: read.bytes, Revision: read.revision, Sum: [sha256.Size]byte(read.sum.Sum(nil))}, nil
}

// tally counts and sums records.
type tally struct {
	keys, bytes int64
	revision    kv.Revision
	sum         hash.Hash
}

// in returns a reader that forwards to r and updates the tally.
func (t *tally) in(r Reader, progress func(int64)) Reader {
	return Reader{
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
	var head []byte
	head = binary.AppendUvarint(head, uint64(len(r.Key)))
	head = append(head, r.Key...)
	head = binary.AppendUvarint(head, uint64(len(r.Value)))
	_, _ = t.sum.Write(head) // a hash.Hash returns no error
	_, _ = t.sum.Write(r.Value)
}

func (t *tally) same(back *tally, where Place) error {
	if t.keys == back.keys && bytes.Equal(t.sum.Sum(nil), back.sum.Sum(nil)) {
		return nil
	}
	return fmt.Errorf("%s contains %d keys with checksum %x, but %d with %x were copied: another program writes to it, or it is damaged",
		where, back.keys, back.sum.Sum(nil)[:8], t.keys, t.sum.Sum(nil)[:8])
}
