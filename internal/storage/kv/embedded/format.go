package embedded

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// The store is one Pebble database. Its keys begin with a byte that says what
// they are; integers in keys are big endian, so that they sort; "uvarint" is
// encoding/binary's.
//
//	m<name>                          meta, eight bytes each, big endian
//	    format                       version of this format, formatVersion
//	    revision                     newest revision when the store was made
//	    compacted                    what Compact was last asked for
//	    trimmed                      history up to here has been deleted
//	    uptime                       milliseconds the store was open, all runs
//	    recorded                     Unix milliseconds, when that was written
//	k<key> 00 <^revision: 8>         one version of one key
//	    flags: 1                     bit 0: a deletion; bit 1: expires
//	    created: uvarint             revision minus the creation revision
//	    expires: uvarint             Unix second, where bit 1 is set
//	    value                        the rest
//	l<revision: 8>                   change log: the ops of that commit, each
//	    flags: 1                     bit 0: a deletion
//	    previous: uvarint            revision of the version replaced, 0: none
//	    length: uvarint, key
//	x<second: 8><key>                what expires in that Unix second
//	    revision: 8                  the version that does
//	t<revision: 8>                   mark: that was the newest revision at
//	    time: 8                      Unix milliseconds, and
//	    uptime: 8                    as in meta
//
// The complement of the revision makes the newest version of a key come first,
// so that the version at revision R is the first one at or after <key> 00 ^R.
// Keys contain no zero byte: that is what keeps the versions of "a" together
// and before those of "ab".
//
// A version and a log record are written once and never overwritten, which is
// why they can be removed by Pebble's SingleDelete. The newest revision is that
// of the last log record, or the meta revision where that is greater. The log
// record of the compacted revision itself is kept, so a store that has been
// written to always has one.
//
// Versions of the format:
//
//	1  the above. Marks, uptime and recorded came later: what has none goes on
//	   without, and a build that does not know them leaves them alone.
const formatVersion = 1

const (
	flagDeleted = 1 << 0
	flagExpires = 1 << 1

	suffixLen = 8

	prefixMeta    = 'm'
	prefixVersion = 'k'
	prefixLog     = 'l'
	prefixExpiry  = 'x'
	prefixMark    = 't'
)

// Names of the meta keys, with their prefix.
const (
	metaFormat    = "mformat"
	metaRevision  = "mrevision"
	metaCompacted = "mcompacted"
	metaTrimmed   = "mtrimmed"
	metaUptime    = "muptime"
	metaRecorded  = "mrecorded"
)

// version is one version of one key, decoded. The zero version is that of a key
// that never was.
type version struct {
	// entry is nil where the key is absent.
	entry *kv.Entry
	// revision is the revision of the put or deletion, or 0 if the key never existed.
	revision kv.Revision
	// expires is a Unix second, 0 for never.
	expires int64
}

// versionKeyLen is the length of the key made by putVersionKey.
func versionKeyLen(key string) int { return 1 + len(key) + 1 + suffixLen }

// putVersionKey fills dst, of length versionKeyLen(key).
func putVersionKey(dst []byte, key string, rev kv.Revision) {
	dst[0] = prefixVersion
	copy(dst[1:], key)
	dst[1+len(key)] = 0
	binary.BigEndian.PutUint64(dst[2+len(key):], ^uint64(rev))
}

// appendVersionKey appends the same to dst.
func appendVersionKey(dst []byte, key string, rev kv.Revision) []byte {
	dst = append(dst, prefixVersion)
	dst = append(dst, key...)
	dst = append(dst, 0)
	return binary.BigEndian.AppendUint64(dst, ^uint64(rev))
}

// splitVersionKey is the inverse; the returned key is part of raw.
func splitVersionKey(raw []byte) (key []byte, rev kv.Revision, err error) {
	n := len(raw) - suffixLen - 1
	if n < 1 || raw[0] != prefixVersion || raw[n] != 0 {
		return nil, 0, fmt.Errorf("malformed version key %q: %w", raw, kv.ErrCorrupt)
	}
	return raw[1:n], kv.Revision(^binary.BigEndian.Uint64(raw[n+1:])), nil
}

// appendBound appends the position in Pebble's key space between the versions of keys smaller than
// bound and all others. Unlike a key, a bound may contain a zero byte: no key is between "a" and
// "a\x00...".
func appendBound(dst []byte, bound string) []byte {
	dst = append(dst, prefixVersion)
	for i := 0; i < len(bound); i++ {
		if bound[i] == 0 {
			dst = append(dst, bound[:i]...)
			return append(dst, 1)
		}
	}
	return append(dst, bound...)
}

// versionHeaderLen returns the length of the data before the value.
func versionHeaderLen(created, rev kv.Revision, expires int64) int {
	n := 1 + uvarintLen(uint64(rev-created))
	if expires > 0 {
		n += uvarintLen(uint64(expires))
	}
	return n
}

// putVersionHeader fills the start of dst and returns the rest.
func putVersionHeader(dst []byte, created, rev kv.Revision, expires int64) []byte {
	dst[0] = 0
	n := 1 + binary.PutUvarint(dst[1:], uint64(rev-created))
	if expires > 0 {
		dst[0] = flagExpires
		n += binary.PutUvarint(dst[n:], uint64(expires))
	}
	return dst[n:]
}

// deletedVersion is the value of a deletion.
func deletedVersion() []byte { return []byte{flagDeleted, 0} }

// decodeVersion decodes the value stored for key at rev. The entry contains a copy of raw.
func decodeVersion(key string, rev kv.Revision, raw []byte) (version, error) {
	malformed := func() (version, error) {
		return version{}, fmt.Errorf("malformed version of %q at revision %d: %w", key, rev, kv.ErrCorrupt)
	}
	if len(raw) < 2 {
		return malformed()
	}
	v := version{revision: rev}
	if raw[0]&flagDeleted != 0 {
		return v, nil
	}
	flags, raw := raw[0], raw[1:]
	age, n := binary.Uvarint(raw)
	if n <= 0 || age >= uint64(rev) {
		return malformed()
	}
	raw = raw[n:]
	if flags&flagExpires != 0 {
		at, n := binary.Uvarint(raw)
		if n <= 0 {
			return malformed()
		}
		v.expires, raw = int64(at), raw[n:]
	}
	value := make([]byte, len(raw))
	copy(value, raw)
	v.entry = &kv.Entry{Key: key, Value: value, Created: rev - kv.Revision(age), Modified: rev}
	return v, nil
}

// logKey is the key of a commit in the change log.
func logKey(rev kv.Revision) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixLog}, uint64(rev))
}

// logRevision is the inverse.
func logRevision(raw []byte) (kv.Revision, error) {
	if len(raw) != 9 || raw[0] != prefixLog {
		return 0, fmt.Errorf("malformed log key %q: %w", raw, kv.ErrCorrupt)
	}
	return kv.Revision(binary.BigEndian.Uint64(raw[1:])), nil
}

// change is one op of a log record.
type change struct {
	key      string
	previous kv.Revision
	deleted  bool
}

func changeLen(c change) int {
	return 1 + uvarintLen(uint64(c.previous)) + uvarintLen(uint64(len(c.key))) + len(c.key)
}

// putChange fills the start of dst and returns the rest.
func putChange(dst []byte, c change) []byte {
	dst[0] = 0
	if c.deleted {
		dst[0] = flagDeleted
	}
	n := 1 + binary.PutUvarint(dst[1:], uint64(c.previous))
	n += binary.PutUvarint(dst[n:], uint64(len(c.key)))
	n += copy(dst[n:], c.key)
	return dst[n:]
}

// decodeChange decodes the first op of a log record and returns the rest.
func decodeChange(raw []byte) (change, []byte, error) {
	malformed := func() (change, []byte, error) {
		return change{}, nil, fmt.Errorf("malformed change log record: %w", kv.ErrCorrupt)
	}
	if len(raw) < 3 {
		return malformed()
	}
	c := change{deleted: raw[0]&flagDeleted != 0}
	prev, n := binary.Uvarint(raw[1:])
	if n <= 0 {
		return malformed()
	}
	c.previous = kv.Revision(prev)
	raw = raw[1+n:]
	length, n := binary.Uvarint(raw)
	if n <= 0 || length > uint64(len(raw)-n) {
		return malformed()
	}
	raw = raw[n:]
	c.key = string(raw[:length])
	return c, raw[length:], nil
}

// expiryKey is the key of the expiry index.
func expiryKey(second int64, key string) []byte {
	dst := make([]byte, 0, 9+len(key))
	dst = append(dst, prefixExpiry)
	dst = binary.BigEndian.AppendUint64(dst, uint64(second))
	return append(dst, key...)
}

// expiry is one entry of the expiry index.
type expiry struct {
	second   int64
	key      string
	revision kv.Revision
}

func decodeExpiry(rawKey, rawValue []byte) (expiry, error) {
	if len(rawKey) < 10 || rawKey[0] != prefixExpiry || len(rawValue) != 8 {
		return expiry{}, fmt.Errorf("malformed expiry index entry %q: %w", rawKey, kv.ErrCorrupt)
	}
	return expiry{
		second:   int64(binary.BigEndian.Uint64(rawKey[1:9])),
		key:      string(rawKey[9:]),
		revision: kv.Revision(binary.BigEndian.Uint64(rawValue)),
	}, nil
}

func revisionValue(rev kv.Revision) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(rev))
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// newComparer returns a bytewise comparer, like Pebble's default, that splits a version's key into
// key and revision, so that bloom filters and seeks use keys without versions. Its name is part of
// the format.
func newComparer() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name = "mainstay.versions.1"
	c.Split = func(key []byte) int {
		if len(key) > 0 && key[0] == prefixVersion {
			if i := bytes.IndexByte(key, 0); i >= 0 {
				return i + 1
			}
		}
		return len(key)
	}
	c.ImmediateSuccessor = func(dst, prefix []byte) []byte {
		dst = append(dst, prefix...)
		if n := len(dst); n > 0 && dst[0] == prefixVersion && dst[n-1] == 0 {
			dst[n-1] = 1
			return dst
		}
		return append(dst, 0)
	}
	return &c
}

func decodeRevision(raw []byte) (kv.Revision, error) {
	if len(raw) != 8 {
		return 0, fmt.Errorf("a revision of %d bytes: %w", len(raw), kv.ErrCorrupt)
	}
	return kv.Revision(binary.BigEndian.Uint64(raw)), nil
}
