package embedded

import (
	"encoding/binary"
	"fmt"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// formatVersion is the version of the format on disk.
//
// The store is one Pebble database. The first byte of a key is its type. Integers in keys are big
// endian, so that they sort; "uvarint" is the encoding of package encoding/binary.
//
//	m<name>                          metadata: 8 bytes, big endian
//	    format                       formatVersion
//	    revision                     the newest revision when the store was created
//	    compacted                    the revision of the last call of Compact
//	    trimmed                      the revision up to which history has been deleted
//	    uptime                       total time that the store was open, in milliseconds
//	    recorded                     time of the last write of uptime, in Unix milliseconds
//	k<key> 00 <^revision: 8>         one version of a key; see package versionkey
//	    flags: 1                     bit 0: deletion; bit 1: has an expiry
//	    created: uvarint             revision minus creation revision
//	    expires: uvarint             Unix seconds; only if bit 1 is set
//	    value                        the remaining bytes
//	l<revision: 8>                   change log record of a commit, for each op:
//	    flags: 1                     bit 0: deletion
//	    previous: uvarint            revision of the replaced version; 0 if there was none
//	    length: uvarint, key
//	o<revision: 8>                   kv.Op.Origin of a commit
//	x<second: 8><key>                a key that expires at this time, in Unix seconds
//	    revision: 8                  revision of the expiring version
//	t<revision: 8>                   mark: the newest revision at a time
//	    time: 8                      Unix milliseconds
//	    uptime: 8                    uptime at this time, in milliseconds
//	p<revision: 8><prefix> 00 <owner>  pin; see kv.Pinner
//	r<key> 00 <^revision: 8>         a version that only pins retain
//	    replaced: 8                  revision of the next version; 0 for a deletion
//
// Versions and log records are written once and not overwritten, except by RewriteOlder, so Pebble's
// SingleDelete can remove them. The newest revision is the revision of the last log record, or the metadata key
// "revision" if that is greater. The log record of the compacted revision is retained, so that the
// log of a store with commits is never empty.
//
// Marks, origins, pins, "uptime" and "recorded" were added later to version 1. They are optional, and builds
// that do not support them ignore them. A build that does not support pins compacts the versions that only
// pins retain.
const formatVersion = 1

const (
	flagDeleted = versionkey.FlagDeleted
	flagExpires = 1 << 1

	prefixMeta     = 'm'
	prefixVersion  = versionkey.Prefix
	prefixLog      = 'l'
	prefixExpiry   = 'x'
	prefixMark     = 't'
	prefixOrigin   = 'o'
	prefixPin      = 'p'
	prefixRetained = 'r'
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

// version is a decoded version of a key. The zero value represents a key that never existed.
type version struct {
	// entry is nil if the version is a deletion.
	entry *kv.Entry
	// revision is the revision of the put or deletion, or 0 if the key never existed.
	revision kv.Revision
	// expires is the expiration time in Unix seconds; 0 if the version does not expire.
	expires int64
}

// versionHeaderLen returns the length of the data before the value.
func versionHeaderLen(created, rev kv.Revision, expires int64) int {
	n := 1 + uvarintLen(uint64(rev-created))
	if expires > 0 {
		n += uvarintLen(uint64(expires))
	}
	return n
}

// putVersionHeader writes the data before the value to the start of dst and returns the rest of
// dst.
func putVersionHeader(dst []byte, created, rev kv.Revision, expires int64) []byte {
	dst[0] = 0
	n := 1 + binary.PutUvarint(dst[1:], uint64(rev-created))
	if expires > 0 {
		dst[0] = flagExpires
		n += binary.PutUvarint(dst[n:], uint64(expires))
	}
	return dst[n:]
}

// deletedVersion returns the encoding of a deletion.
func deletedVersion() []byte { return []byte{flagDeleted, 0} }

// decodeVersion decodes the value stored for key at rev. The entry contains a copy of the value in raw.
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

// logKey returns the key of a change log record.
func logKey(rev kv.Revision) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixLog}, uint64(rev))
}

// originKey returns the key of the origin of a commit.
func originKey(rev kv.Revision) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixOrigin}, uint64(rev))
}

// logRevision parses the key of a change log record.
func logRevision(raw []byte) (kv.Revision, error) {
	if len(raw) != 9 || raw[0] != prefixLog {
		return 0, fmt.Errorf("malformed log key %q: %w", raw, kv.ErrCorrupt)
	}
	return kv.Revision(binary.BigEndian.Uint64(raw[1:])), nil
}

// change is one op of a change log record.
type change struct {
	key      string
	previous kv.Revision
	deleted  bool
}

func changeLen(c change) int {
	return 1 + uvarintLen(uint64(c.previous)) + uvarintLen(uint64(len(c.key))) + len(c.key)
}

// putChange writes a change to the start of dst and returns the rest of dst.
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

// decodeChange decodes the first op of a change log record and returns the rest of the record.
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

// expiryKey returns the key of an entry of the expiry index.
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

func decodeRevision(raw []byte) (kv.Revision, error) {
	if len(raw) != 8 {
		return 0, fmt.Errorf("a revision of %d bytes: %w", len(raw), kv.ErrCorrupt)
	}
	return kv.Revision(binary.BigEndian.Uint64(raw)), nil
}
