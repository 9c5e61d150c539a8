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
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// ackFile stores the newest acknowledged revision in a file next to the database. The file reveals that the
// end of Pebble's log was lost. Without it, a truncated log is indistinguishable from a log that ended there.
//
// The commit loop records the revision of a group after the sync and before the acknowledgment, by
// overwriting the 20 bytes of the file in one write, without fsync. The recorded revision is therefore never
// newer than the durable revision. After a crash of the process, the operating system still has the newest
// record. After a power failure, the record may be up to ackedSyncInterval old, and the loss of newer writes
// is not detected.
//
//	magic     8 bytes, ackedMagic
//	revision  8 bytes, big endian
//	crc       4 bytes, CRC-32C of the preceding bytes
type ackFile struct {
	log  *slog.Logger
	fs   vfs.FS
	dir  string
	file vfs.File
	// dirty contains a value while the last record is not synced.
	dirty chan struct{}
	// failed is set after a failed write, so that only the first failure is logged.
	failed atomic.Bool
	// buf is used by record only.
	buf [ackedLen]byte
}

const (
	ackFileName = "ACKNOWLEDGED"
	ackedMagic  = "MAINACKN"
	ackedLen    = 20

	// ackedSyncInterval is the minimum time between two syncs of the file.
	ackedSyncInterval = 5 * time.Second
)

// ErrLostWrites reports that acknowledged writes are missing, for example because a log file was lost. With
// Config.AcceptLostWrites, the store opens nevertheless.
var ErrLostWrites = fmt.Errorf("acknowledged writes are missing: %w", kv.ErrCorrupt)

// readAcked returns the revision in the file, or 0 if the file does not exist or is corrupt.
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
	if !ok && len(raw) > 0 { // an empty file was created, but never written
		d.log.Warn("the file with the last acknowledged revision is corrupt and is rewritten", "file", name)
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

// openAckFile opens the file for writing. On an error, such as a full disk, it logs the error, and
// nothing is recorded until the next start.
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
		w.log.Warn("the last acknowledged write cannot be recorded: the loss of the newest log would not be detected", "dir", w.dir, "err", pebblefs.FirstLine(err))
	}
}

// record writes a durable revision to the file, without fsync. It must not be called concurrently.
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

// syncLoop syncs the file after writes, at most once per ackedSyncInterval, until done is closed.
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
				err = pebblefs.SyncDir(w.fs, w.dir)
				named = err == nil
			}
			if err != nil {
				w.logFailure(err)
			}
		}
		select {
		case <-done:
			return
		case <-time.After(ackedSyncInterval):
		}
	}
}

// close syncs and closes the file.
func (w *ackFile) close() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.file.Sync(), w.file.Close())
	if err == nil {
		err = pebblefs.SyncDir(w.fs, w.dir)
	}
	if err != nil {
		return fmt.Errorf("record the last acknowledged write: %w", err)
	}
	return nil
}
