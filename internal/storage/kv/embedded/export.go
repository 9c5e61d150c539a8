package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// Record is a version of a key in a snapshot: the newest version, or a version that pins retain.
type Record struct {
	kv.Entry
	// Expires is the expiration time, with a resolution of one second; zero if the key does not
	// expire.
	Expires time.Time
	// Deleted is set for a deletion. Entry then has only Key and Modified.
	Deleted bool
	// Replaced is the revision of the next version; 0 for the newest version and for a deletion.
	Replaced kv.Revision
}

func (r *Record) version() version {
	v := version{entry: &r.Entry, revision: r.Modified}
	if !r.Expires.IsZero() {
		v.expires = max(r.Expires.Unix(), 1)
	}
	return v
}

func (r *Record) snapshotRecord() snapshotRecord {
	if r.Deleted {
		return snapshotRecord{key: r.Key, version: version{revision: r.Modified}}
	}
	return snapshotRecord{key: r.Key, version: r.version(), older: r.Replaced > 0, replaced: r.Replaced}
}

func (r *snapshotRecord) record() Record {
	if r.entry == nil {
		return Record{Entry: kv.Entry{Key: r.key, Modified: r.revision}, Deleted: true}
	}
	record := Record{Entry: *r.entry, Replaced: r.replaced}
	if r.expires > 0 {
		record.Expires = time.Unix(r.expires, 0)
	}
	return record
}

// SnapshotReader receives the content of a snapshot. Each function may be nil. If a function returns an
// error, ReadSnapshot stops and returns the error.
type SnapshotReader struct {
	// Begin is called first, with the revision of the snapshot.
	Begin func(kv.Revision) error
	// Retained is called with the pins before the first record. If Retained is not nil, Record also receives
	// the deletions and replaced versions that pins retain.
	Retained func(PinSet) error
	// Record is called for each key in ascending order, and for the versions of a key from the newest to the
	// oldest. It may retain its argument.
	Record func(Record) error
}

// SnapshotInfo describes the content of a snapshot.
type SnapshotInfo struct {
	Revision kv.Revision
	Keys     int64
}

// IsSnapshot reports whether head, the first bytes of a file, is the start of a snapshot.
func IsSnapshot(head []byte) bool {
	return len(head) >= len(snapshotMagic) && string(head[:len(snapshotMagic)]) == snapshotMagic
}

// ReadSnapshot reads a complete snapshot and verifies its checksums. The error wraps kv.ErrCorrupt
// if the snapshot is damaged. After an error, the data that to has received is unreliable.
func ReadSnapshot(r io.Reader, to SnapshotReader) (SnapshotInfo, error) {
	sr, err := newSnapshotReader(r)
	if err != nil {
		return SnapshotInfo{}, err
	}
	if to.Begin != nil {
		if err := to.Begin(sr.revision); err != nil {
			return SnapshotInfo{}, err
		}
	}
	if err := sr.readInto(to); err != nil {
		return SnapshotInfo{}, err
	}
	return SnapshotInfo{Revision: sr.revision, Keys: sr.keys}, nil
}

// readInto passes the pins and records to a reader.
func (sr *snapshotReader) readInto(to SnapshotReader) error {
	retained := to.Retained != nil
	begun := false
	begin := func() error { // the pins precede the first record
		if begun || !retained {
			return nil
		}
		begun = true
		return to.Retained(NewPinSet(sr.pins))
	}
	for r, err := range sr.versions() {
		if err == nil {
			err = begin()
		}
		isNewest := r.entry != nil && !r.older
		if isNewest {
			sr.keys++
		}
		if err == nil && to.Record != nil && (isNewest || retained) {
			err = to.Record(r.record())
		}
		if err != nil {
			return err
		}
	}
	return begin()
}

// SnapshotWriter writes a snapshot for Restore from the entries of another store. It is not safe for
// concurrent use.
type SnapshotWriter struct {
	w    *snapshotWriter
	at   kv.Revision
	last string
	buf  []byte
}

// NewSnapshotWriter writes the header of a snapshot whose revision is at. The caller must call Close after
// the last record. The error comes from w.
func NewSnapshotWriter(w io.Writer, at kv.Revision) (*SnapshotWriter, error) {
	sw := &SnapshotWriter{w: newSnapshotWriter(w, at, false), at: at}
	if sw.w.err != nil {
		return nil, fmt.Errorf("write snapshot: %w", sw.w.err)
	}
	return sw, nil
}

// Put adds a record. It returns an error if the key is not greater than the previous key, contains a zero
// byte, or has invalid revisions, or if the write fails. It does not retain the value.
func (sw *SnapshotWriter) Put(r Record) error {
	switch {
	case r.Key <= sw.last:
		return fmt.Errorf("write snapshot: key %q comes after %q", r.Key, sw.last)
	case r.Modified > sw.at || r.Created > r.Modified || r.Created <= 0:
		return fmt.Errorf("write snapshot: key %q has revision %d and creation revision %d, which are invalid in a snapshot of revision %d", r.Key, r.Modified, r.Created, sw.at)
	}
	for i := range len(r.Key) {
		if r.Key[i] == 0 {
			return fmt.Errorf("write snapshot: key %q contains a zero byte", r.Key)
		}
	}
	sw.last = r.Key
	sw.buf = appendSnapshotRecord(sw.buf, r.version())
	if len(sw.buf) < snapshotChunk {
		return nil
	}
	return sw.flush()
}

func (sw *SnapshotWriter) flush() error {
	err := sw.w.records(sw.buf)
	sw.buf = sw.buf[:0]
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// Close writes buffered records and the trailer of the snapshot. It does not close the underlying
// writer. A snapshot without its trailer is invalid. It returns the error of a failed write.
func (sw *SnapshotWriter) Close() error {
	if err := sw.flush(); err != nil {
		return err
	}
	if err := sw.w.trailer(); err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return nil
}

// ErrNoStore is returned by Check if there is no store.
var ErrNoStore = errors.New("there is no store")

// SyncName syncs the parent of a store directory. Callers use it after renaming the directory, so
// that the new name is durable. It returns the error of the file system.
func SyncName(dir string) error { return pebblefs.SyncDir(vfs.Default, filepath.Dir(dir)) }

// SnapshotHeaderLen is the length of the header of a snapshot, in bytes.
const SnapshotHeaderLen = snapshotHeaderLen

// SnapshotRevision returns the revision of a snapshot from its first SnapshotHeaderLen bytes. It returns an
// error if these bytes are not the header of a supported format; the error wraps kv.ErrCorrupt if the header
// is damaged.
func SnapshotRevision(header []byte) (kv.Revision, error) {
	sr, err := newSnapshotReader(bytes.NewReader(header))
	if err != nil {
		return 0, err
	}
	return sr.revision, nil
}

// loadSnapshot restores c.Snapshot into a file system in memory, and sets c.FS to it. It does nothing if
// c.Snapshot is "".
func (c *Config) loadSnapshot() error {
	if c.Snapshot == "" {
		return nil
	}
	if !c.InMemory {
		return errors.New("open store: only a store in memory can begin with a snapshot")
	}
	file, err := os.Open(c.Snapshot)
	if err != nil {
		return fmt.Errorf("open the snapshot: %w", err)
	}
	defer file.Close()
	c.FS, c.InMemory, c.Dir = vfs.NewMem(), false, "store"
	if err := restore(file, *c); err != nil {
		return fmt.Errorf("load the snapshot %s: %w", c.Snapshot, err)
	}
	return nil
}
