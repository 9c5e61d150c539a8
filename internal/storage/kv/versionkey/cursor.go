package versionkey

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Cursor finds the version of each key that was the newest at a revision. It is not safe for concurrent use.
// The owner of the cursor closes Iter.
type Cursor struct {
	// Iter iterates over version keys.
	Iter *pebble.Iterator
	// At is the revision to read at.
	At kv.Revision

	// buf contains the version key of the last seek.
	buf []byte
}

// NewCursor returns a cursor. The cursor builds search keys in the memory of buf, which may be nil; see
// Buffer.
func NewCursor(iter *pebble.Iterator, at kv.Revision, buf []byte) Cursor {
	return Cursor{Iter: iter, At: at, buf: buf}
}

// Buffer returns the memory of the cursor, so that another cursor can reuse it.
func (c *Cursor) Buffer() []byte { return c.buf }

// Seek moves Iter to the version of one key, which may be a deletion. It returns false if the key has no
// version at the revision, or if Iter has an error.
func (c *Cursor) Seek(key string) bool {
	c.buf = Append(c.buf[:0], key, c.At)
	return c.Iter.SeekPrefixGE(c.buf)
}

// Next moves Iter to the version of the next key that exists at the revision, and returns this key, or nil
// after the last key. The key is valid until the next call. The error is the error of Iter, or wraps
// kv.ErrCorrupt if a version key is invalid. first must be true for the first call, and false for all later
// calls.
func (c *Cursor) Next(first bool) (key []byte, err error) {
	var ok bool
	if first {
		ok = c.Iter.First()
	} else {
		ok = c.Iter.NextPrefix()
	}
	for ok {
		key, rev, err := Split(c.Iter.Key())
		if err != nil {
			return nil, err
		}
		if rev > c.At {
			if ok = c.skipNewer(key); !ok {
				break
			}
			found, _, err := Split(c.Iter.Key())
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(found, c.buf[1:len(c.buf)-suffixLen-1]) {
				continue // the key was created after the revision
			}
			key = found
		}
		raw, err := c.Iter.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if len(raw) > 0 && raw[0]&FlagDeleted == 0 {
			return key, nil
		}
		ok = c.Iter.NextPrefix()
	}
	return nil, c.Iter.Error()
}

// skipNewer skips the versions of a key that are newer than the revision. There are usually few of them, so
// it tries one step before it seeks. It sets buf to the version key of the key at the revision.
func (c *Cursor) skipNewer(key []byte) bool {
	c.buf = Append(c.buf[:0], string(key), c.At)
	if !c.Iter.Next() {
		return false
	}
	if bytes.Compare(c.Iter.Key(), c.buf) >= 0 {
		return true
	}
	return c.Iter.SeekGE(c.buf)
}
