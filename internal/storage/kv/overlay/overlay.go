// Package overlay adds a base to prefixes of a store. A base is the immutable initial content of a prefix.
// Reads return the entries of the base until a write replaces them; writes never change the base. Many
// prefixes can therefore share the same initial content.
//
// The stored key and the base determine the visible entry of a key:
//
//	stored key    base       visible entry
//	absent        absent     no entry
//	absent        present    the entry of the base, with its revision
//	value         any        the stored entry
//	Tombstone     present    no entry: it was deleted
//
// Deleting a key that the base contains stores Tombstone, so each change is one write to one key. Commits,
// revisions and watches are therefore those of the store.
package overlay

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Tombstone is the value that is stored for a deleted key if the base contains the key. No object is encoded
// as this value.
const Tombstone = "\x00deleted"

// IsTombstone reports whether a stored value marks a deletion. Code that decodes the values of a store must
// skip such values.
func IsTombstone(value []byte) bool { return string(value) == Tombstone }

// isTombstone reports whether an entry marks a deletion.
func isTombstone(e *kv.Entry) bool { return e != nil && IsTombstone(e.Value) }

// Base is immutable initial content that can be attached to prefixes. Its keys are relative to the prefix, and
// its entries are older than all writes below the prefix. Its methods return the same errors as a
// kv.Backend. It is safe for concurrent use.
type Base interface {
	// Revision returns the revision of the content. No entry is newer than it. 0 means that the content is
	// older than every revision of the store.
	Revision() kv.Revision
	// Get returns the entry of a key, or nil.
	Get(ctx context.Context, key string) (*kv.Entry, error)
	// Scan returns a cursor over the entries of [start, end) in ascending order. An empty end means no end.
	// size is a hint for the number of entries that the cursor reads per request.
	Scan(start, end string, size int) Cursor
	// Count returns the number of keys of [start, end).
	Count(ctx context.Context, start, end string) (int64, error)
}

// Cursor iterates over entries. It is not safe for concurrent use, and holds no resources between calls.
type Cursor interface {
	// Next returns the next entry, or nil at the end. The caller may modify the entry, but not its value.
	Next(ctx context.Context) (*kv.Entry, error)
}

// Backend is a kv.Backend in which prefixes can have a base. It calls the underlying backend for all methods
// that are not defined here. It is safe for concurrent use.
//
// Two details differ from the contract of kv. If the base contains a key, Entry.Created of a stored entry is
// the revision of the first write to the key in the prefix. A range that extends beyond an attached prefix
// returns only stored keys.
type Backend struct {
	kv.Backend

	mu    sync.RWMutex
	bases map[string]Base // by prefix
}

// New returns a Backend that wraps another backend and has no bases yet.
func New(backend kv.Backend) *Backend {
	return &Backend{Backend: backend, bases: map[string]Base{}}
}

// Attach sets the base of a prefix, which must end with a slash. It must be called before the prefix is read or
// written. Attached prefixes must not contain each other.
func (b *Backend) Attach(prefix string, base Base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bases[prefix] = base
}

// Detach removes the base of a prefix. The prefix must not be in use. Detach has no effect on a prefix
// without a base.
func (b *Backend) Detach(prefix string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.bases, prefix)
}

// attachment is an attached prefix with its base.
type attachment struct {
	prefix string
	base   Base
}

// relative returns a key without the prefix.
func (p *attachment) relative(key string) string { return key[len(p.prefix):] }

// entry returns a copy of an entry of the base with its absolute key, or nil if e is nil.
func (p *attachment) entry(e *kv.Entry) *kv.Entry {
	if e == nil {
		return nil
	}
	moved := *e
	moved.Key = p.prefix + e.Key
	return &moved
}

// get returns the entry of the base for a key, or nil.
func (p *attachment) get(ctx context.Context, key string) (*kv.Entry, error) {
	e, err := p.base.Get(ctx, p.relative(key))
	if err != nil {
		return nil, fmt.Errorf("read the base of %s: %w", p.prefix, err)
	}
	return p.entry(e), nil
}

// checkRevision returns an error that wraps kv.ErrCompacted if a revision is older than the base.
func (p *attachment) checkRevision(at kv.Revision) error {
	if oldest := p.base.Revision(); at > 0 && at < oldest {
		return fmt.Errorf("%s at revision %d, the oldest being %d: %w", p.prefix, at, oldest, kv.ErrCompacted)
	}
	return nil
}

// find returns the attached prefix that contains a key, or nil if there is none.
func (b *Backend) find(key string) *attachment {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.bases) == 0 {
		return nil
	}
	for i := range len(key) {
		if key[i] != '/' {
			continue
		}
		if base := b.bases[key[:i+1]]; base != nil {
			return &attachment{key[:i+1], base}
		}
	}
	return nil
}

// findRange returns the attached prefix that contains a whole range, or nil if there is none.
func (b *Backend) findRange(start, end string) *attachment {
	p := b.find(start)
	if p == nil || end == "" || end > kv.PrefixEnd(p.prefix) {
		return nil
	}
	return p
}

// visible returns the visible entry of a key with a base, given its stored entry.
func (p *attachment) visible(ctx context.Context, key string, stored *kv.Entry) (*kv.Entry, error) {
	switch {
	case isTombstone(stored):
		return nil, nil
	case stored != nil:
		return stored, nil
	}
	return p.get(ctx, key)
}

// Get implements kv.Backend.
func (b *Backend) Get(ctx context.Context, key string, at kv.Revision) (*kv.Entry, kv.Revision, error) {
	stored, revision, err := b.Backend.Get(ctx, key, at)
	p := b.find(key)
	if err != nil || p == nil {
		return stored, revision, err
	}
	if err := p.checkRevision(at); err != nil {
		return nil, 0, err
	}
	e, err := p.visible(ctx, key, stored)
	return e, revision, err
}

// PrefixRevision implements kv.PrefixRevisioner.
func (b *Backend) PrefixRevision(ctx context.Context, prefix string) (revision kv.Revision, ok bool, err error) {
	return kv.PrefixRevision(ctx, b.Backend, prefix)
}

// relativeEnd returns the end of a range relative to the prefix; "" means the end of the prefix.
func (p *attachment) relativeEnd(end string) string {
	if !strings.HasPrefix(end, p.prefix) { // the end of the prefix
		return ""
	}
	return p.relative(end)
}
