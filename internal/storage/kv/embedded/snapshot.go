package embedded

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// A snapshot is a stream. Integers are big endian; "uvarint" is the encoding of package
// encoding/binary; CRC is CRC-32C.
//
//	header
//	    magic        8 bytes, snapshotMagic
//	    version      4 bytes
//	    revision     8 bytes, revision of the snapshot
//	    crc          4 bytes, of the preceding bytes
//	records, one for each key, in ascending order
//	    length       uvarint, of the payload, not zero
//	    payload
//	        key      uvarint length, bytes
//	        modified uvarint
//	        age      uvarint, modified minus the creation revision
//	        expires  uvarint, Unix seconds; 0 if the key does not expire
//	        value    the remaining bytes
//	    crc          4 bytes, of the payload
//
// A snapshot of a store with pins has version 2. Its first records are those of the pins. It also has a
// record for each retained version and each deletion that a pin needs. The versions of a key follow each
// other, the newest first. Each payload begins with one byte, its kind:
//
//	    version      like a payload of version 1
//	    deletion     key, modified
//	    pin          revision: uvarint; prefix: uvarint length, bytes; owner: the remaining bytes
//
//	trailer
//	    end          one zero byte
//	    count        8 bytes, number of records
//	    sum          32 bytes, SHA-256 of all preceding bytes
const (
	snapshotMagic = "MAINSNAP"

	// Versions of the format.
	snapshotVersion  = 1
	snapshotWithPins = 2

	// Kinds of payloads in version 2.
	snapshotVersionKind = 0
	snapshotDeleted     = 1
	snapshotPin         = 2

	snapshotHeaderLen = 24
	snapshotChunk     = 1 << 20
	// maxRecord is the maximum length of a record, in bytes. It limits the memory that Restore allocates for
	// a record with a damaged length.
	maxRecord = 1 << 30

	// restoreEpoch is the minimum number of revisions that Restore skips. Clients may have seen
	// revisions after the snapshot, and must not see a different object with the same revision.
	restoreEpoch = 1_000_000_000
)

// Snapshot implements kv.Backend. Restore creates a store from the snapshot.
func (s *Store) Snapshot(ctx context.Context, w io.Writer) (kv.Revision, error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, err
	}
	// The pins are determined before the revision, because the snapshot must not have newer pins.
	pins, release := s.copyPins()
	defer release()
	// The receiver may be slow, so only ctx limits the duration of the hold.
	at, releaseHold, err := s.hold(ctx, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("snapshot: %w", err)
	}
	defer releaseHold()
	sw := newSnapshotWriter(w, at, len(pins) > 0)
	if err := sw.records(appendPins(nil, pins)); err != nil {
		return 0, fmt.Errorf("write snapshot: %w", err)
	}
	var buf []byte
	for start := ""; ; {
		if err := s.checkOpen(ctx); err != nil {
			return 0, err
		}
		// Chunks are copied before they are written, so that a slow receiver does not block the
		// engine.
		read := s.snapshotChunk
		if len(pins) > 0 {
			read = func(dst []byte, start string, at kv.Revision) ([]byte, string, error) {
				return s.pinnedChunk(dst, start, at, pins)
			}
		}
		chunk, last, err := read(buf[:0], start, at)
		if err != nil {
			return 0, fmt.Errorf("snapshot: %w", err)
		}
		if err := sw.records(chunk); err != nil {
			return 0, fmt.Errorf("write snapshot: %w", err)
		}
		if last == "" {
			break
		}
		start, buf = last+"\x00", chunk
	}
	if err := sw.trailer(); err != nil {
		return 0, fmt.Errorf("write snapshot: %w", err)
	}
	return at, nil
}

// snapshotChunk appends the records of the keys from start to dst, up to a maximum size. last is the
// last appended key; "" after the last key of the store.
func (s *Store) snapshotChunk(dst []byte, start string, at kv.Revision) (chunk []byte, last string, err error) {
	e, err := s.acquireEngine()
	if err != nil {
		return nil, "", err
	}
	defer s.release()
	bounds := versionkey.Bounds(start, "")
	it, err := e.db.NewIter(&bounds)
	if err != nil {
		return nil, "", e.wrapError("read", err)
	}
	defer it.Close()
	r := reading{Cursor: versionkey.NewCursor(it, at, nil), s: s, e: e}
	for first := true; len(dst) < snapshotChunk; first = false {
		key, err := r.next(first)
		if err != nil {
			return nil, "", err
		}
		if key == nil {
			return dst, "", nil
		}
		last = string(key)
		v, err := r.version(last)
		if err != nil {
			return nil, "", err
		}
		dst = appendSnapshotRecord(dst, v)
	}
	return dst, last, nil
}

func appendSnapshotRecord(dst []byte, v version) []byte { return appendVersionRecord(dst, nil, v) }

// appendVersionRecord appends a record with a version. kind is the first byte of the payload in version 2,
// and empty in version 1.
func appendVersionRecord(dst, kind []byte, v version) []byte {
	e := v.entry
	n := len(kind) + uvarintLen(uint64(len(e.Key))) + len(e.Key) + uvarintLen(uint64(e.Modified)) +
		uvarintLen(uint64(e.Modified-e.Created)) + uvarintLen(uint64(v.expires)) + len(e.Value)
	dst = binary.AppendUvarint(dst, uint64(n))
	from := len(dst)
	dst = append(dst, kind...)
	dst = binary.AppendUvarint(dst, uint64(len(e.Key)))
	dst = append(dst, e.Key...)
	dst = binary.AppendUvarint(dst, uint64(e.Modified))
	dst = binary.AppendUvarint(dst, uint64(e.Modified-e.Created))
	dst = binary.AppendUvarint(dst, uint64(v.expires))
	dst = append(dst, e.Value...)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli()))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func snapshotHeader(version uint32, at kv.Revision) []byte {
	h := []byte(snapshotMagic)
	h = binary.BigEndian.AppendUint32(h, version)
	h = binary.BigEndian.AppendUint64(h, uint64(at))
	return binary.BigEndian.AppendUint32(h, crc32.Checksum(h, castagnoli()))
}

// snapshotWriter writes the parts of a snapshot, and computes the count and the checksum.
type snapshotWriter struct {
	w     io.Writer
	sum   hash.Hash
	count uint64
	err   error
}

func newSnapshotWriter(w io.Writer, at kv.Revision, pins bool) *snapshotWriter {
	sw := &snapshotWriter{sum: sha256.New()}
	sw.w = io.MultiWriter(w, sw.sum)
	format := uint32(snapshotVersion)
	if pins {
		format = snapshotWithPins
	}
	_, sw.err = sw.w.Write(snapshotHeader(format, at))
	return sw
}

func (sw *snapshotWriter) records(chunk []byte) error {
	for rest := chunk; len(rest) > 0; sw.count++ {
		n, used := binary.Uvarint(rest)
		rest = rest[used+int(n)+4:]
	}
	if sw.err == nil && len(chunk) > 0 {
		_, sw.err = sw.w.Write(chunk)
	}
	return sw.err
}

func (sw *snapshotWriter) trailer() error {
	if sw.err == nil {
		_, sw.err = sw.w.Write(binary.BigEndian.AppendUint64([]byte{0}, sw.count))
	}
	if sw.err == nil {
		// The write also adds the sum to the hash, which is not used afterwards.
		_, sw.err = sw.w.Write(sw.sum.Sum(nil))
	}
	return sw.err
}

// snapshotReader reads a snapshot and verifies it.
type snapshotReader struct {
	r        *bufio.Reader
	sum      hash.Hash
	count    uint64 // number of records
	keys     int64  // number of existing keys
	version  uint32
	revision kv.Revision
	// last is the last record with a version.
	last snapshotRecord
	pins []kv.Pin // pins that were read
}

// snapshotRecord is a version in a snapshot.
type snapshotRecord struct {
	key string
	version
	// older is set if the version was replaced. replaced is then the revision of the next version.
	older    bool
	replaced kv.Revision
}

// maxSnapshotRevision is the maximum revision of a snapshot that can be restored. It reserves
// revisions for the restored store.
const maxSnapshotRevision = math.MaxInt64 / 2

// errSnapshot returns an error for a part of a snapshot, described by what. err is the error of reading the
// part, or nil if the part is damaged.
func errSnapshot(what string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the snapshot ends in the middle of %s: %w", what, kv.ErrCorrupt)
	}
	if err != nil {
		return fmt.Errorf("read %s of the snapshot: %w", what, err)
	}
	return fmt.Errorf("%s of the snapshot is damaged: %w", what, kv.ErrCorrupt)
}

func newSnapshotReader(r io.Reader) (*snapshotReader, error) {
	sr := &snapshotReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	header := make([]byte, snapshotHeaderLen)
	if err := sr.read(header); err != nil {
		return nil, errSnapshot("the header", err)
	}
	if !bytes.HasPrefix(header, []byte(snapshotMagic)) {
		return nil, errors.New("this is not a snapshot of a Mainstay store")
	}
	if sr.version = binary.BigEndian.Uint32(header[8:]); sr.version != snapshotVersion && sr.version != snapshotWithPins {
		return nil, fmt.Errorf("the snapshot has format %d, and this version of Mainstay reads formats %d and %d", sr.version, snapshotVersion, snapshotWithPins)
	}
	sr.revision = kv.Revision(binary.BigEndian.Uint64(header[12:]))
	if !bytes.Equal(header, snapshotHeader(sr.version, sr.revision)) || sr.revision < 0 {
		return nil, errSnapshot("the header", nil)
	}
	if sr.revision > maxSnapshotRevision {
		return nil, fmt.Errorf("the snapshot has revision %d, and the greatest that a store can be restored from is %d: %w", sr.revision, int64(maxSnapshotRevision), kv.ErrCorrupt)
	}
	return sr, nil
}

func (sr *snapshotReader) read(p []byte) error {
	if _, err := io.ReadFull(sr.r, p); err != nil {
		return err
	}
	_, _ = sr.sum.Write(p)
	return nil
}

// ReadByte implements io.ByteReader, which binary.ReadUvarint requires.
func (sr *snapshotReader) ReadByte() (byte, error) {
	b, err := sr.r.ReadByte()
	if err == nil {
		_, _ = sr.sum.Write([]byte{b})
	}
	return b, err
}

// versions yields the records that contain versions. It stops after the first error.
func (sr *snapshotReader) versions() iter.Seq2[snapshotRecord, error] {
	return func(yield func(snapshotRecord, error) bool) {
		for {
			payload, err := sr.payload()
			if err != nil {
				yield(snapshotRecord{}, err)
				return
			}
			if payload == nil {
				return
			}
			record, ok, err := sr.record(payload)
			if ok && !yield(record, nil) {
				return
			}
			if err != nil {
				yield(record, err)
				return
			}
		}
	}
}

// payload returns the payload of the next record, or nil at the end of a complete snapshot.
func (sr *snapshotReader) payload() ([]byte, error) {
	n, err := binary.ReadUvarint(sr)
	if err != nil {
		return nil, errSnapshot("a record", err)
	}
	if n == 0 {
		return nil, sr.end()
	}
	if n > maxRecord {
		return nil, errSnapshot("a record", nil)
	}
	// The buffer grows with the bytes that arrive, so that a damaged length does not cause a large
	// allocation.
	var payload bytes.Buffer
	if _, err := io.CopyN(io.MultiWriter(&payload, sr.sum), sr.r, int64(n)); err != nil {
		return nil, errSnapshot("a record", err)
	}
	var crc [4]byte
	if err := sr.read(crc[:]); err != nil {
		return nil, errSnapshot("a record", err)
	}
	if binary.BigEndian.Uint32(crc[:]) != crc32.Checksum(payload.Bytes(), castagnoli()) {
		return nil, errSnapshot("a record", nil)
	}
	sr.count++
	return payload.Bytes(), nil
}

// record decodes a record and checks its order. ok is false for a pin, which record adds to sr.pins.
func (sr *snapshotReader) record(payload []byte) (r snapshotRecord, ok bool, err error) {
	damaged := errSnapshot("a record", nil)
	kind := byte(snapshotVersionKind)
	if sr.version == snapshotWithPins {
		kind, payload = payload[0], payload[1:]
	}
	f := recordFields{payload}
	switch kind {
	case snapshotVersionKind:
		if r.version, ok = decodeSnapshotRecord(f); ok {
			r.key = r.entry.Key
		}
	case snapshotDeleted:
		var complete bool
		r.key, ok = f.text()
		r.revision, complete = f.revision()
		ok = ok && complete && r.key != "" && len(f.raw) == 0
	case snapshotPin:
		x, valid := decodePinRecord(f)
		if !valid || x.Revision > sr.revision || sr.last.key != "" {
			return r, false, damaged
		}
		sr.pins = append(sr.pins, x)
		return r, false, nil
	}
	last := &sr.last
	r.older = r.key == last.key && sr.version == snapshotWithPins
	switch {
	case !ok || r.revision > sr.revision || r.older && r.revision >= last.revision:
		return r, false, damaged
	case !r.older && r.key <= last.key:
		return r, false, fmt.Errorf("key %q of the snapshot comes after %q: %w", r.key, last.key, kv.ErrCorrupt)
	case r.older:
		r.replaced = last.revision
	}
	*last = snapshotRecord{key: r.key, version: version{revision: r.revision}}
	return r, true, nil
}

// recordFields decodes the fields of a payload.
type recordFields struct{ raw []byte }

func (f *recordFields) number() (uint64, bool) {
	v, n := binary.Uvarint(f.raw)
	if n <= 0 {
		return 0, false
	}
	f.raw = f.raw[n:]
	return v, true
}

func (f *recordFields) revision() (kv.Revision, bool) {
	v, ok := f.number()
	return kv.Revision(v), ok && v > 0 && int64(v) > 0
}

// text decodes a string with its length. It returns false if the string contains a zero byte.
func (f *recordFields) text() (string, bool) {
	n, ok := f.number()
	if !ok || n > uint64(len(f.raw)) || bytes.IndexByte(f.raw[:n], 0) >= 0 {
		return "", false
	}
	text := string(f.raw[:n])
	f.raw = f.raw[n:]
	return text, true
}

func decodeSnapshotRecord(f recordFields) (version, bool) {
	key, ok := f.text()
	rev, ok1 := f.revision()
	age, ok2 := f.number()
	expires, ok3 := f.number()
	if !ok || !ok1 || !ok2 || !ok3 || key == "" || age >= uint64(rev) || int64(expires) < 0 {
		return version{}, false
	}
	e := &kv.Entry{Key: key, Value: f.raw, Created: rev - kv.Revision(age), Modified: rev}
	return version{entry: e, revision: rev, expires: int64(expires)}, true
}

// end verifies the trailer.
func (sr *snapshotReader) end() error {
	var count [8]byte
	if err := sr.read(count[:]); err != nil {
		return errSnapshot("the trailer", err)
	}
	want := sr.sum.Sum(nil)
	var sum [sha256.Size]byte
	if err := sr.read(sum[:]); err != nil {
		return errSnapshot("the trailer", err)
	}
	if binary.BigEndian.Uint64(count[:]) != sr.count || !bytes.Equal(sum[:], want) {
		return errSnapshot("the trailer", nil)
	}
	return nil
}

// Restore creates a store in dir from a snapshot. dir must be empty or must not exist. If the snapshot
// is damaged, Restore leaves dir empty and returns an error that wraps kv.ErrCorrupt. The revision of
// the restored store is greater than all revisions that clients of the old store have seen, and its
// history starts there.
func Restore(r io.Reader, dir string) error { return restore(r, Config{Dir: dir}) }

func restore(r io.Reader, cfg Config) error {
	sr, err := newSnapshotReader(r)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return create(cfg, sr.revision, sr.versions(), func() []kv.Pin { return sr.pins })
}

// Create creates a store in dir from records. The records of a key are in descending order of their
// revisions; records of other keys may be between them. newest is the newest revision that clients may have
// seen, and not less than the revision of any record. pins returns the pins of the store, and is called after
// the last record. If records yields an error, Create returns it and leaves dir empty. Otherwise, Create is
// like Restore.
func Create(dir string, newest kv.Revision, records iter.Seq2[Record, error], pins func() []kv.Pin) error {
	if newest > maxSnapshotRevision {
		return fmt.Errorf("restore: revision %d is greater than the maximum, %d: %w", newest, int64(maxSnapshotRevision), kv.ErrCorrupt)
	}
	versions := func(yield func(snapshotRecord, error) bool) {
		for r, err := range records {
			if !yield(r.snapshotRecord(), err) {
				return
			}
		}
	}
	return create(Config{Dir: dir}, newest, versions, pins)
}

// create creates a store from versions. pins returns the pins of the store, and is called after the last
// version.
func create(cfg Config, newest kv.Revision, versions iter.Seq2[snapshotRecord, error], pins func() []kv.Pin) error {
	d, err := newDisk(cfg)
	if err != nil {
		return err
	}
	if err := d.lock(); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	err = d.restore(newest, versions, pins)
	if err = errors.Join(err, d.unlock()); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// restore creates the store in the locked directory from the records of a snapshot.
func (d *disk) restore(newest kv.Revision, versions iter.Seq2[snapshotRecord, error], pins func() []kv.Pin) error {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return fmt.Errorf("list data directory %s: %w", d.dir, err)
	}
	unfinished := false
	for _, name := range names {
		unfinished = unfinished || name == restoringFile
	}
	for _, name := range names {
		if name != "LOCK" && name != reserveFile && !unfinished {
			return fmt.Errorf("data directory %s is not empty: there is %s", d.dir, name)
		}
	}
	if err := d.createMarker(restoringFile); err != nil {
		return err
	}
	if err := d.removeDatabase(); err != nil {
		return err
	}
	if err := d.writeVersions(newest, versions, pins); err != nil {
		return errors.Join(err, d.removeDatabase(), d.removeMarker(restoringFile))
	}
	return d.removeMarker(restoringFile)
}

// removeDatabase removes the database files and the record of acknowledged writes.
func (d *disk) removeDatabase() error {
	names, err := d.fs.List(d.dir)
	if err != nil {
		return fmt.Errorf("clear data directory %s: %w", d.dir, err)
	}
	for _, name := range names {
		if !engineFile(name) && name != ackFileName {
			continue
		}
		if err := d.fs.Remove(filepath.Join(d.dir, name)); err != nil {
			return fmt.Errorf("clear data directory %s: %w", d.dir, err)
		}
	}
	return nil
}

// writeVersions writes the versions to a new database.
func (d *disk) writeVersions(newest kv.Revision, versions iter.Seq2[snapshotRecord, error], pins func() []kv.Pin) error {
	e, err := d.openNew()
	if err != nil {
		return err
	}
	if err := e.load(newest, versions, pins); err != nil {
		return errors.Join(err, e.close())
	}
	if err := e.db.Flush(); err != nil {
		return errors.Join(e.wrapError("write", err), e.close())
	}
	if err := e.close(); err != nil {
		return err
	}
	return e.complete()
}

func (e *engine) load(newest kv.Revision, versions iter.Seq2[snapshotRecord, error], pins func() []kv.Pin) error {
	b := e.db.NewBatch()
	flush := func() error {
		if err := e.db.Apply(b, pebble.NoSync); err != nil {
			return e.wrapError("write", err)
		}
		err := b.Close()
		b = e.db.NewBatch()
		return err
	}
	for v, err := range versions {
		if err != nil {
			return err
		}
		v.put(b)
		if b.Len() >= snapshotChunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	for _, x := range pins() {
		_ = b.Set(pinKey(x), nil, nil)
	}
	at := restoredRevision(newest)
	_ = b.Set([]byte(metaFormat), revisionValue(formatVersion), nil)
	_ = b.Set([]byte(metaRevision), revisionValue(at), nil)
	_ = b.Set([]byte(metaCompacted), revisionValue(at), nil)
	_ = b.Set([]byte(metaTrimmed), revisionValue(at), nil)
	return flush()
}

// restoredRevision returns the first multiple of restoreEpoch that is at least one epoch after at.
func restoredRevision(at kv.Revision) kv.Revision {
	at += restoreEpoch
	if r := at % restoreEpoch; r != 0 {
		at += restoreEpoch - r
	}
	return at
}
