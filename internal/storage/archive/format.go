package archive

import (
	"encoding/binary"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// formatVersion is the version of the format on disk.
//
// The first byte of a key is its type. Integers in keys are big endian; "uvarint" is the encoding of
// package encoding/binary. Times are Unix milliseconds.
//
//	m<name>                          metadata: 8 bytes, big endian
//	    format                       formatVersion
//	    position                     the newest archived revision
//	    current                      the time at which position was the newest revision of the backend
//	    start                        the revision of the first resync
//	k<key> 00 <^revision: 8>         one version of a key; see package versionkey
//	    flags: 1                     bit 0: deletion; bit 1: delta
//	    age: uvarint                 revision minus creation revision
//	    time: uvarint                time of the change; 0 if it is unknown
//	    length: uvarint, origin      kv.Op.Origin
//	    value                        the remaining bytes; a delta to the next older version of the
//	                                 key if bit 1 is set
//	r<revision: 8><key>              one change; there is none for versions of the first resync
//	    flags: 1                     bit 0: deletion
//	    time: uvarint
//	    previous: uvarint            revision of the replaced version; 0 if there was none
//	f<resource>                      floor of a resource, such as "pods" or "example.com/widgets"; the
//	                                 empty resource means all resources without their own rule
//	    revision: 8
//	    time: 8
//	n<resource>                      like f, but the floor due to a maximum number of versions
//	g<from: 8>                       a gap: the states after from and before to are unknown
//	    to: 8
//	    times: 8, 8                  times of from and to
const formatVersion = 1

const (
	prefixMeta   = 'm'
	prefixChange = 'r'
	prefixFloor  = 'f'
	prefixCount  = 'n'
	prefixGap    = 'g'

	metaFormat   = "mformat"
	metaPosition = "mposition"
	metaCurrent  = "mcurrent"
	metaStart    = "mstart"
)

// flagDelta is set in the flags of a version whose value is a delta.
const flagDelta = 1 << 1

// version is a decoded version of a key.
type version struct {
	key      string
	revision kv.Revision
	deleted  bool
	delta    bool // value is a delta to the value of the next older version
	created  kv.Revision
	time     time.Time // zero if it is unknown
	// origin and value alias the decoded bytes.
	origin, value []byte
}

// entry returns the entry of a complete version, which must not alias the database.
func (v *version) entry() *kv.Entry {
	return &kv.Entry{Key: v.key, Value: v.value, Created: v.created, Modified: v.revision}
}

func appendVersion(dst []byte, v *version) []byte {
	var flags byte
	if v.deleted {
		flags = versionkey.FlagDeleted
	}
	if v.delta {
		flags |= flagDelta
	}
	dst = binary.AppendUvarint(append(dst, flags), uint64(v.revision-v.created))
	dst = binary.AppendUvarint(dst, encodeTime(v.time))
	dst = binary.AppendUvarint(dst, uint64(len(v.origin)))
	dst = append(dst, v.origin...)
	return append(dst, v.value...)
}

// decodeVersion decodes the value of a version key. The error wraps kv.ErrCorrupt.
func decodeVersion(key string, rev kv.Revision, raw []byte) (version, error) {
	v := version{key: key, revision: rev}
	r := reader{raw}
	flags := r.byte()
	v.deleted, v.delta = flags&versionkey.FlagDeleted != 0, flags&flagDelta != 0
	age := r.uvarint()
	v.time = decodeTime(r.uvarint())
	v.origin = r.bytes(r.uvarint())
	if r.raw == nil || age > uint64(rev) {
		return version{}, fmt.Errorf("malformed version of %q at revision %d: %w", key, rev, kv.ErrCorrupt)
	}
	v.created, v.value = rev-kv.Revision(age), r.raw
	return v, nil
}

// change is one change of one key.
type change struct {
	revision kv.Revision
	key      string
	deleted  bool
	time     time.Time
	previous kv.Revision
}

func changeKey(rev kv.Revision, key string) []byte {
	dst := make([]byte, 0, 9+len(key))
	dst = binary.BigEndian.AppendUint64(append(dst, prefixChange), uint64(rev))
	return append(dst, key...)
}

func (c *change) value() []byte {
	var flags byte
	if c.deleted {
		flags = versionkey.FlagDeleted
	}
	dst := binary.AppendUvarint([]byte{flags}, encodeTime(c.time))
	return binary.AppendUvarint(dst, uint64(c.previous))
}

// decodeChange decodes an entry of the index of changes. The error wraps kv.ErrCorrupt.
func decodeChange(rawKey, raw []byte) (change, error) {
	malformed := fmt.Errorf("malformed change %q: %w", rawKey, kv.ErrCorrupt)
	if len(rawKey) < 10 || rawKey[0] != prefixChange {
		return change{}, malformed
	}
	c := change{revision: kv.Revision(binary.BigEndian.Uint64(rawKey[1:9])), key: string(rawKey[9:])}
	r := reader{raw}
	c.deleted = r.byte()&versionkey.FlagDeleted != 0
	c.time = decodeTime(r.uvarint())
	c.previous = kv.Revision(r.uvarint())
	if r.raw == nil || c.revision <= 0 || c.previous < 0 || c.previous >= c.revision {
		return change{}, malformed
	}
	return c, nil
}

// gap is a range of revisions whose states are unknown, except the states at from and to.
type gap struct {
	from, to         kv.Revision
	fromTime, toTime time.Time
}

func gapKey(from kv.Revision) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixGap}, uint64(from))
}

func (g *gap) value() []byte {
	dst := uintValue(uint64(g.to))
	dst = binary.BigEndian.AppendUint64(dst, encodeTime(g.fromTime))
	return binary.BigEndian.AppendUint64(dst, encodeTime(g.toTime))
}

func decodeGap(rawKey, raw []byte) (gap, error) {
	if len(rawKey) != 9 || len(raw) != 24 {
		return gap{}, fmt.Errorf("malformed gap %q: %w", rawKey, kv.ErrCorrupt)
	}
	return gap{
		from: kv.Revision(binary.BigEndian.Uint64(rawKey[1:])), to: kv.Revision(binary.BigEndian.Uint64(raw)),
		fromTime: decodeTime(binary.BigEndian.Uint64(raw[8:])), toTime: decodeTime(binary.BigEndian.Uint64(raw[16:])),
	}, nil
}

// floor is the oldest revision at which the state of a resource is complete.
type floor struct {
	revision kv.Revision
	time     time.Time
}

func (f *floor) value() []byte {
	return binary.BigEndian.AppendUint64(uintValue(uint64(f.revision)), encodeTime(f.time))
}

func decodeFloor(rawKey, raw []byte) (floor, error) {
	if len(raw) != 16 {
		return floor{}, fmt.Errorf("malformed floor %q: %w", rawKey, kv.ErrCorrupt)
	}
	return floor{kv.Revision(binary.BigEndian.Uint64(raw)), decodeTime(binary.BigEndian.Uint64(raw[8:]))}, nil
}

func floorKey(resource string) []byte { return append([]byte{prefixFloor}, resource...) }
func countKey(resource string) []byte { return append([]byte{prefixCount}, resource...) }

func uintValue(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func encodeTime(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(t.UnixMilli(), 0))
}

func decodeTime(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(min(ms, maxTime)))
}

// maxTime is the maximum time in Unix milliseconds: the end of the year 9999, the last year of RFC 3339.
const maxTime = 253402300799999

// reader decodes a value. After an error, raw is nil.
type reader struct{ raw []byte }

func (r *reader) byte() byte {
	b := r.bytes(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.raw)
	if n <= 0 {
		r.raw = nil
		return 0
	}
	r.raw = r.raw[n:]
	return v
}

// bytes returns the next n bytes. It returns nil only after an error.
func (r *reader) bytes(n uint64) []byte {
	if r.raw == nil || n > uint64(len(r.raw)) {
		r.raw = nil
		return nil
	}
	b := r.raw[:n:n]
	r.raw = r.raw[n:]
	return b
}
