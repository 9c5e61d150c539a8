package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// Report is the result of Check for an intact store.
type Report struct {
	// Format is the version of the storage format.
	Format int
	// Revision is the newest revision, and Compacted is the revision of the newest compaction.
	Revision, Compacted kv.Revision
	// Keys is the number of current keys, Expiring the number of keys with a TTL, Versions the number
	// of versions of current and deleted keys, and Commits the number of commits in the change log.
	Keys, Expiring, Versions, Commits int64
	// Marks is the number of marks. A mark records which revision was the newest at a point in time.
	Marks int64
	// Pins is the number of pins, and Retained the number of versions that only pins retain.
	Pins, Retained int64
	// Bytes is the total size of the values of all versions.
	Bytes int64
}

// Exists reports whether a directory contains a store, even if its creation was interrupted. It returns
// false for a missing directory, and an error if the directory cannot be read.
func Exists(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		if name := e.Name(); engineFile(name) || name == creatingFile || name == restoringFile {
			return true, nil
		}
	}
	return false, nil
}

// CheckReader receives the data that Check reads. Either function may be nil.
type CheckReader struct {
	// Progress is called periodically with the number of records read so far.
	Progress func(records int64)
	// Entry is called for each current key, in ascending order. If it returns an error, Check stops and
	// returns the error.
	Entry func(*kv.Entry) error
}

// Check verifies the whole store in dir without changing it. It locks the directory and fails if another
// process uses it. An error that wraps kv.ErrCorrupt describes the first damage that Check found; ErrNoStore
// means that there is no store. to may be nil.
func Check(ctx context.Context, dir string, to *CheckReader) (Report, error) {
	if to == nil {
		to = &CheckReader{}
	}
	d, err := newDisk(Config{Dir: dir})
	if err != nil {
		return Report{}, err
	}
	there, err := Exists(dir)
	if err != nil {
		return Report{}, err
	}
	if !there {
		return Report{}, fmt.Errorf("%w in %s", ErrNoStore, dir)
	}
	names, err := d.fs.List(dir)
	if err != nil {
		return Report{}, fmt.Errorf("list %s: %w", dir, err)
	}
	if err := d.lock(); err != nil {
		return Report{}, err
	}
	report, err := d.check(ctx, names, to)
	return report, errors.Join(err, d.unlock())
}

func (d *disk) check(ctx context.Context, names []string, to *CheckReader) (Report, error) {
	for _, name := range names {
		if name == creatingFile || name == restoringFile {
			return Report{}, fmt.Errorf("%s contains an incomplete store: the file %s exists", d.dir, name)
		}
	}
	e := d.newEngine()
	o := d.options(e)
	o.ReadOnly = true
	var err error
	if e.db, err = pebblefs.Open(d.dir, o); err != nil {
		return Report{}, d.wrapOpenError(e.guard, err)
	}
	c := checker{ctx: ctx, e: e, to: to}
	err = c.run()
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrLostWrites) {
		err = e.wrapError("check the store", err)
	}
	return c.report, errors.Join(err, e.close())
}

// checker checks the data of an engine and counts it.
type checker struct {
	ctx    context.Context
	e      *engine
	to     *CheckReader
	read   int64
	state  state
	report Report
	// recent is the number of versions that must have a change log record.
	recent int64
}

func (c *checker) run() error {
	// This also checks blocks that the iterations below do not read.
	if err := c.e.db.CheckLevels(nil); err != nil {
		return err
	}
	noted, err := c.e.disk.readAcked()
	if err != nil {
		return err
	}
	if c.state, err = c.e.loadAcknowledged(noted); err != nil {
		return err
	}
	if err := c.e.checkContiguous(c.state, math.MaxInt); err != nil {
		return err
	}
	if c.state.trimmed > c.state.compacted || c.state.compacted > c.state.revision {
		return corruptError("revision %d, compacted to %d and trimmed to %d", c.state.revision, c.state.compacted, c.state.trimmed)
	}
	c.report.Format, c.report.Revision, c.report.Compacted = formatVersion, c.state.revision, c.state.compacted
	for _, part := range []func() error{c.versions, c.changes, c.expiries, c.marks, c.pins, c.retained} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// corruptError returns an error that wraps kv.ErrCorrupt.
func corruptError(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, kv.ErrCorrupt)...)
}

// each calls visit for all keys with a one-byte prefix.
func (c *checker) each(prefix byte, visit func(key, value []byte) error) error {
	it, err := c.e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if c.read++; c.read%1000 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			if c.to.Progress != nil {
				c.to.Progress(c.read)
			}
		}
		value, err := it.ValueAndErr()
		if err == nil {
			err = visit(it.Key(), value)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// versions checks the versions of each key, newest first.
func (c *checker) versions() error {
	var key []byte
	var newer version
	return c.each(prefixVersion, func(rawKey, rawValue []byte) error {
		of, rev, err := versionkey.Split(rawKey)
		if err != nil {
			return err
		}
		v, err := decodeVersion(string(of), rev, rawValue)
		if err != nil {
			return err
		}
		first := !bytes.Equal(of, key)
		switch {
		case rev <= 0 || rev > c.state.revision:
			return corruptError("%q has a version of revision %d, the newest being %d", of, rev, c.state.revision)
		case !first && newer.entry != nil && !canPrecede(newer.entry, v, c.state.trimmed):
			return corruptError("%q was created at %d according to revision %d, but not to revision %d", of, newer.entry.Created, newer.revision, rev)
		}
		c.report.Versions++
		if rev > c.state.trimmed {
			c.recent++
		}
		if v.entry != nil {
			c.report.Bytes += int64(len(v.entry.Value))
		}
		if first && v.entry != nil {
			c.report.Keys++
			if err := c.expiry(string(of), v); err != nil {
				return err
			}
			if err := c.entry(v.entry); err != nil {
				return err
			}
		}
		key, newer = append(key[:0], of...), v
		return nil
	})
}

func (c *checker) entry(entry *kv.Entry) error {
	if c.to.Entry == nil {
		return nil
	}
	return c.to.Entry(entry)
}

// canPrecede reports whether before can be the next older version of an entry. Versions between two versions
// that only pins retain may have been deleted.
func canPrecede(e *kv.Entry, before version, trimmed kv.Revision) bool {
	if before.entry == nil && before.revision <= trimmed {
		return e.Created > before.revision
	}
	if before.entry == nil {
		return e.Created == e.Modified // the key was deleted
	}
	return e.Created == before.entry.Created
}

// expiry checks that the index of expiring keys contains a key if its newest version expires.
func (c *checker) expiry(key string, v version) error {
	if v.expires == 0 {
		return nil
	}
	c.report.Expiring++
	raw, closer, err := c.e.db.Get(expiryKey(v.expires, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return corruptError("%q expires, but the index of expirations does not contain it", key)
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	if rev, err := decodeRevision(raw); err != nil || rev != v.revision {
		return corruptError("the index of expirations has %q with revision %d, but its newest version has revision %d", key, rev, v.revision)
	}
	return nil
}

// changes checks that the change log and the stored versions match.
func (c *checker) changes() error {
	var named int64
	err := c.each(prefixLog, func(rawKey, raw []byte) error {
		rev, err := logRevision(rawKey)
		if err != nil {
			return err
		}
		if rev <= 0 || rev > c.state.revision {
			return corruptError("the change log has revision %d, the newest being %d", rev, c.state.revision)
		}
		c.report.Commits++
		for len(raw) > 0 {
			var ch change
			if ch, raw, err = decodeChange(raw); err != nil {
				return err
			}
			if rev <= c.state.trimmed {
				continue
			}
			named++
			if err := c.change(ch, rev); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && named != c.recent {
		err = corruptError("the change log names %d versions after revision %d, but the store has %d", named, c.state.trimmed, c.recent)
	}
	return err
}

func (c *checker) change(ch change, rev kv.Revision) error {
	if ch.previous >= rev {
		return corruptError("in the change log, %q has the previous revision %d, which is not older than its revision %d", ch.key, ch.previous, rev)
	}
	for _, at := range []kv.Revision{rev, ch.previous} {
		if at == 0 {
			continue
		}
		raw, closer, err := c.e.db.Get(versionkey.Append(nil, ch.key, at))
		if errors.Is(err, pebble.ErrNotFound) {
			return corruptError("the change log names %q at revision %d, which is missing", ch.key, at)
		}
		if err != nil {
			return err
		}
		deleted := len(raw) > 0 && raw[0]&flagDeleted != 0
		if err := closer.Close(); err != nil {
			return err
		}
		if at == rev && deleted != ch.deleted {
			return corruptError("the change log and the version of %q at revision %d differ about its deletion", ch.key, rev)
		}
	}
	return nil
}

// expiries checks that the index of expiring keys contains only keys that expire.
func (c *checker) expiries() error {
	var n int64
	err := c.each(prefixExpiry, func(rawKey, rawValue []byte) error {
		n++
		_, err := decodeExpiry(rawKey, rawValue)
		return err
	})
	if err == nil && n != c.report.Expiring {
		err = corruptError("the index has %d keys that expire, but the store has %d", n, c.report.Expiring)
	}
	return err
}

// marks checks that the revisions and uptimes of marks ascend. Their times may descend, because
// clocks can be set back.
func (c *checker) marks() error {
	var last history.Mark
	return c.each(prefixMark, func(rawKey, rawValue []byte) error {
		mark, err := decodeMark(rawKey, rawValue)
		switch {
		case err != nil:
			return err
		case mark.Revision <= 0 || mark.Revision > c.state.revision:
			return corruptError("a mark has revision %d, the newest being %d", mark.Revision, c.state.revision)
		case mark.Uptime < last.Uptime:
			return corruptError("the mark of revision %d was made at an uptime of %s, that of revision %d before it at %s", mark.Revision, mark.Uptime, last.Revision, last.Uptime)
		}
		last = mark
		c.report.Marks++
		return nil
	})
}

// pins checks that the revisions of pins exist.
func (c *checker) pins() error {
	return c.each(prefixPin, func(rawKey, _ []byte) error {
		x, err := decodePin(rawKey)
		if err == nil && (x.Revision <= 0 || x.Revision > c.state.revision) {
			err = corruptError("a pin has revision %d, the newest being %d", x.Revision, c.state.revision)
		}
		c.report.Pins++
		return err
	})
}

// retained checks that all versions in the index of retained versions exist.
func (c *checker) retained() error {
	return c.each(prefixRetained, func(rawKey, rawValue []byte) error {
		r, err := decodeRetained(rawKey, rawValue)
		if err != nil {
			return err
		}
		c.report.Retained++
		_, closer, err := c.e.db.Get(versionkey.Append(nil, r.key, r.written))
		if errors.Is(err, pebble.ErrNotFound) {
			return corruptError("the retained version of %q at revision %d is missing", r.key, r.written)
		}
		if err != nil {
			return err
		}
		return closer.Close()
	})
}
