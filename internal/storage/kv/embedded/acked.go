package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// ackFile keeps the newest acknowledged revision in a file beside the database.
// The log of a database cannot say itself that its end, or all of it, is
// missing: it would look like a log that was not written any further.
//
// Each group notes its revision after it was synced and before it is
// acknowledged, with one write of 20 bytes in place and no sync, so that what
// the file says is never ahead of what was durable. When the process is killed,
// the operating system still has the newest note. When the power fails, the
// file may say what it said up to ackedSyncEvery ago: of writes newer than
// that, a loss is not noticed.
//
//	magic     8 bytes, ackedMagic
//	revision  8 bytes, big endian
//	crc       4 bytes, CRC-32C of the above
type ackFile struct {
	log  *slog.Logger
	fs   vfs.FS
	dir  string
	file vfs.File
	// dirty has a value while something is noted that was not synced.
	dirty chan struct{}
	// failed is set when a note could not be written; it is logged once.
	failed atomic.Bool
	// buf belongs to the goroutine that notes.
	buf [ackedLen]byte
}

const (
	ackFileName = "ACKNOWLEDGED"
	ackedMagic  = "MAINACKN"
	ackedLen    = 20

	// ackedSyncEvery is how long a note may wait for its sync.
	ackedSyncEvery = 5 * time.Second
)

// ErrLostWrites reports that the end of the store is missing. Config.AcceptLostWrites ignores it.
var ErrLostWrites = fmt.Errorf("acknowledged writes are missing: %w", kv.ErrCorrupt)

// readAcked returns the revision in the file of a directory, or 0 if it does not exist.
func (d *disk) readAcked() (kv.Revision, error) {
	name := filepath.Join(d.dir, ackFileName)
	f, err := d.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, explain("read", name, err)
	}
	raw, err := io.ReadAll(io.LimitReader(f, ackedLen+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, explain("read", name, err)
	}
	rev, ok := decodeAcked(raw)
	if !ok && len(raw) > 0 { // an empty one was made, and never written to
		d.log.Warn("the record of the last acknowledged write cannot be read, and is written again", "file", name)
	}
	return rev, nil
}

func decodeAcked(raw []byte) (kv.Revision, bool) {
	if len(raw) != ackedLen || string(raw[:8]) != ackedMagic ||
		binary.BigEndian.Uint32(raw[16:]) != crc32.Checksum(raw[:16], castagnoli()) {
		return 0, false
	}
	return kv.Revision(binary.BigEndian.Uint64(raw[8:])), true
}

func appendAcked(dst []byte, rev kv.Revision) []byte {
	from := len(dst)
	dst = append(dst, ackedMagic...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(rev))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[from:], castagnoli()))
}

// openAckFile opens the file for notes. Where that is not possible, as on a full
// disk, the notes are missing until the next start.
func (d *disk) openAckFile() *ackFile {
	w := &ackFile{log: d.log, fs: d.fs, dir: d.dir, dirty: make(chan struct{}, 1)}
	var err error
	if w.file, err = d.fs.OpenReadWrite(filepath.Join(d.dir, ackFileName), vfs.WriteCategoryUnspecified); err != nil {
		w.file = nil
		w.logFailure(err)
	}
	return w
}

func (w *ackFile) logFailure(err error) {
	if !w.failed.Swap(true) {
		w.log.Warn("the last acknowledged write cannot be recorded: the loss of the newest log would not be detected", "dir", w.dir, "err", firstLine(err))
	}
}

// record writes down a revision that is durable. Calls do not overlap.
func (w *ackFile) record(rev kv.Revision) {
	if w.file == nil {
		return
	}
	if _, err := w.file.WriteAt(appendAcked(w.buf[:0], rev), 0); err != nil {
		w.logFailure(err)
		return
	}
	w.failed.Store(false)
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// syncLoop syncs the file with a delay until done is closed.
func (w *ackFile) syncLoop(done <-chan struct{}) {
	for named := false; ; {
		select {
		case <-done:
			return
		case <-w.dirty:
		}
		if !w.failed.Load() {
			err := w.file.SyncData()
			if err == nil && !named {
				err = syncDir(w.fs, w.dir)
				named = err == nil
			}
			if err != nil {
				w.logFailure(err)
			}
		}
		select {
		case <-done:
			return
		case <-time.After(ackedSyncEvery):
		}
	}
}

// close makes the last note durable.
func (w *ackFile) close() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.file.Sync(), w.file.Close())
	if err == nil {
		err = syncDir(w.fs, w.dir)
	}
	if err != nil {
		return fmt.Errorf("record the last acknowledged write: %w", err)
	}
	return nil
}
