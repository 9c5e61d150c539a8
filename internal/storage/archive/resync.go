package archive

import (
	"bytes"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// resyncPage is the number of keys that a resync reads per request.
const resyncPage = 500

// resync archives the differences between the archive and the backend at a held revision. The states between
// the position of the archive and the revision are unknown, so resync records a gap. If a resync is
// interrupted, the next one continues it.
func (a *Archive) resync(db *database, at kv.Revision) error {
	from, now := a.Position(), a.now()
	a.log.Info("the history is compared with the store", "dir", a.dir, "from", from, "to", at)
	r := resyncer{a: a, db: db, at: at, from: from, now: now}
	start, end := a.prefix, kv.PrefixEnd(a.prefix)
	for more := true; more; {
		page, err := a.backend.Range(a.ctx, kv.RangeRequest{Start: start, End: end, At: at, Limit: resyncPage})
		if err != nil {
			return err
		}
		until := end
		if more = page.More; more {
			until = page.Entries[len(page.Entries)-1].Key + "\x00"
		}
		if err := r.compare(page.Entries, start, until); err != nil {
			return err
		}
		start = until
	}
	return r.finish()
}

// resyncer writes the differences.
type resyncer struct {
	a        *Archive
	db       *database
	at, from kv.Revision
	now      time.Time
	buf      []byte
}

// compare archives the differences of the keys in [start, end). entries are all keys of the backend in this
// range.
func (r *resyncer) compare(entries []kv.Entry, start, end string) error {
	bounds := versionkey.Bounds(start, end)
	it, err := r.db.NewIter(&bounds)
	if err != nil {
		return r.db.explain("read the history", err)
	}
	defer it.Close()
	c := versionkey.NewCursor(it, r.at, nil)
	b := r.db.NewBatch()
	key, err := c.Next(true)
	for err == nil && (key != nil || len(entries) > 0) {
		switch {
		case len(entries) == 0 || key != nil && string(key) < entries[0].Key:
			if err = r.delete(b, &c, string(bytes.Clone(key))); err == nil {
				key, err = c.Next(false)
			}
			continue
		case key == nil || string(key) > entries[0].Key:
			r.put(b, &entries[0], 0)
		default:
			var rev kv.Revision
			if _, rev, err = versionkey.Split(it.Key()); err == nil && rev != entries[0].Modified {
				r.put(b, &entries[0], rev)
			}
			if err == nil {
				key, err = c.Next(false)
			}
		}
		entries = entries[1:]
	}
	if err != nil {
		return r.db.explain("read the history", err)
	}
	return r.db.apply(b)
}

// put adds a version of the backend to a batch. previous is the revision of the replaced version; 0 if the
// archive does not have the key.
func (r *resyncer) put(b *pebble.Batch, e *kv.Entry, previous kv.Revision) {
	v := version{key: e.Key, revision: e.Modified, created: e.Created, value: e.Value}
	if e.Modified > r.from && r.from > 0 {
		v.time = r.now
		c := change{revision: e.Modified, key: e.Key, time: r.now, previous: previous}
		_ = b.Set(changeKey(c.revision, c.key), c.value(), nil)
	}
	r.buf = putVersion(b, r.buf, &v)
}

// delete adds a deletion of the key at the cursor to a batch.
func (r *resyncer) delete(b *pebble.Batch, c *versionkey.Cursor, key string) error {
	_, rev, err := versionkey.Split(c.Iter.Key())
	if err != nil {
		return err
	}
	v := version{key: key, revision: r.at, created: r.at, deleted: true, time: r.now}
	r.buf = putVersion(b, r.buf, &v)
	change := change{revision: r.at, key: key, deleted: true, time: r.now, previous: rev}
	return b.Set(changeKey(r.at, key), change.value(), nil)
}

// finish records the gap and the new position durably.
func (r *resyncer) finish() error {
	a := r.a
	b := r.db.NewBatch()
	_ = b.Set([]byte(metaPosition), uintValue(uint64(r.at)), nil)
	_ = b.Set([]byte(metaCurrent), uintValue(encodeTime(r.now)), nil)
	a.mu.Lock()
	missing := gap{from: r.from, to: r.at, fromTime: a.mu.current, toTime: r.now}
	a.mu.Unlock()
	if r.from == 0 {
		_ = b.Set([]byte(metaStart), uintValue(uint64(r.at)), nil)
		missing.fromTime = time.Time{}
	}
	_ = b.Set(gapKey(missing.from), missing.value(), nil)
	if err := r.db.apply(b); err != nil {
		return err
	}
	if err := r.db.flush(); err != nil {
		return err
	}
	a.mu.Lock()
	if r.from == 0 {
		a.mu.start = r.at
	}
	a.mu.gaps = append(a.mu.gaps, missing)
	a.mu.Unlock()
	a.moveTo(r.at, r.now)
	if r.from > 0 {
		a.log.Warn("the history has a gap: the store no longer had its changes", "dir", a.dir, "from", r.from, "to", r.at)
	}
	return nil
}
