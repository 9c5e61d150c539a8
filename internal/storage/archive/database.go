package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// Sizes of the database. Large blocks compress well, because they contain many versions of one key.
const (
	memTableBytes   = 4 << 20
	blockCacheBytes = 8 << 20
	blockBytes      = 64 << 10
)

// database is an open Pebble database. After the first failed write it serves reads only.
type database struct {
	*pebble.DB
	dir   string
	guard *pebblefs.Guard
	// failed is closed after the first failed write.
	failed chan struct{}
}

// openDatabase opens a database, or creates it. fs may be nil.
func openDatabase(dir string, fs vfs.FS, log *slog.Logger) (*database, error) {
	if fs == nil {
		fs = pebblefs.Private{FS: vfs.Default}
	}
	if err := pebblefs.MakeDir(fs, dir); err != nil {
		return nil, fmt.Errorf("create the directory of the history: %w", err)
	}
	db := &database{dir: dir, guard: pebblefs.New(fs), failed: make(chan struct{})}
	o := &pebble.Options{
		FS: db.guard, Comparer: versionkey.NewComparer(), FormatMajorVersion: pebble.FormatTableFormatV6,
		DisableWAL: true, MemTableSize: memTableBytes, CacheSize: blockCacheBytes, MaxOpenFiles: 200,
		L0CompactionThreshold: 8, L0StopWritesThreshold: 1000, LBaseMaxBytes: 64 << 20,
		Logger: pebblefs.Logger{Log: log.With("dir", dir), Failed: db.guard.Fail},
		EventListener: &pebble.EventListener{BackgroundError: func(err error) {
			if db.guard.Failure() == nil {
				log.Warn("background work on the history failed", "dir", dir, "err", pebblefs.FirstLine(err))
			}
		}},
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = blockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// By default, Pebble stores the values of older versions in separate blocks. Reading a past state would
	// decompress two blocks for each key.
	o.Experimental.SpanPolicyFunc = func([]byte) (pebble.SpanPolicy, []byte, error) {
		return pebble.SpanPolicy{DisableValueSeparationBySuffix: true}, nil, nil
	}
	// The last level, which has most of the data, is compressed with zstd, and the others with a faster
	// algorithm.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionBalanced })
	var err error
	if db.DB, err = pebblefs.Open(dir, o); err != nil {
		return nil, db.explain("open the history", err)
	}
	if err := db.guard.Arm(func(error) { close(db.failed); db.guard.Abandon() }); err != nil {
		return nil, errors.Join(db.explain("open the history", err), db.close())
	}
	return db, nil
}

// flush makes all written data durable.
func (db *database) flush() error {
	if err := db.Flush(); err != nil {
		return db.explain("write the history", err)
	}
	return db.failure()
}

// failure returns the error of the first failed write, or nil.
func (db *database) failure() error {
	return db.explain("write the history", db.guard.Failure())
}

func (db *database) close() error {
	if db.guard.Failure() != nil {
		db.guard.Abandon()
		_ = db.DB.Close() // discards unwritten data
		return nil
	}
	return db.explain("close the history", db.DB.Close())
}

// apply writes a batch, which a flush makes durable.
func (db *database) apply(b *pebble.Batch) error {
	if err := db.Apply(b, pebble.NoSync); err != nil {
		return db.explain("write the history", err)
	}
	return errors.Join(db.failure(), b.Close())
}

func (db *database) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrCorrupt), pebble.IsCorruptionError(err):
		return fmt.Errorf("%s: %s is damaged; the objects are not affected: move the directory away to start a new history: %w: %s", doing, db.dir, kv.ErrCorrupt, pebblefs.FirstLine(err))
	default:
		return fmt.Errorf("%s in %s: %w: %w", doing, db.dir, kv.ErrUnavailable, err)
	}
}

// state is the state of a newly opened database.
type state struct {
	position, start kv.Revision
	current         time.Time
	floors, counted map[string]floor
	gaps            []gap
	rules           map[string]Rule // set by Archive.applyRules
}

// load reads the state, and writes the format version of a new database.
func (db *database) load() (state, error) {
	st := state{floors: map[string]floor{}, counted: map[string]floor{}}
	format, err := db.meta(metaFormat)
	if err != nil {
		return st, err
	}
	if format != 0 && format != formatVersion {
		return st, fmt.Errorf("the history in %s has format %d, and this version of Mainstay reads format %d: run a version that is at least as new as the one that wrote it", db.dir, format, formatVersion)
	}
	if format == 0 {
		b := db.NewBatch()
		_ = b.Set([]byte(metaFormat), uintValue(formatVersion), nil)
		return st, db.apply(b)
	}
	position, err := db.meta(metaPosition)
	start, err2 := db.meta(metaStart)
	current, err3 := db.meta(metaCurrent)
	if err := errors.Join(err, err2, err3); err != nil {
		return st, err
	}
	st.position, st.start, st.current = kv.Revision(position), kv.Revision(start), decodeTime(current)
	for prefix, floors := range map[byte]map[string]floor{prefixFloor: st.floors, prefixCount: st.counted} {
		err := db.each(prefix, func(key, value []byte) error {
			f, err := decodeFloor(key, value)
			floors[string(key[1:])] = f
			return err
		})
		if err != nil {
			return st, err
		}
	}
	return st, db.each(prefixGap, func(key, value []byte) error {
		g, err := decodeGap(key, value)
		st.gaps = append(st.gaps, g)
		return err
	})
}

// meta reads a metadata key; 0 if it does not exist.
func (db *database) meta(name string) (uint64, error) {
	raw, closer, err := db.Get([]byte(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, db.explain("read the history", err)
	}
	defer closer.Close()
	if len(raw) != 8 {
		return 0, db.explain("read the history", fmt.Errorf("malformed %s: %w", name[1:], kv.ErrCorrupt))
	}
	return binary.BigEndian.Uint64(raw), nil
}

// each calls visit for all keys with a one-byte prefix.
func (db *database) each(prefix byte, visit func(key, value []byte) error) error {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return db.explain("read the history", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = visit(it.Key(), value)
		}
		if err != nil {
			return db.explain("read the history", err)
		}
	}
	return db.explain("read the history", it.Error())
}
