package archive

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// trimInterval is the time between two applications of the policy.
const trimInterval = time.Minute

// retain applies the policy until Close.
func (a *Archive) retain() {
	ticker := time.NewTicker(trimInterval)
	defer ticker.Stop()
	for {
		if err := a.Trim(a.ctx); err != nil && a.ctx.Err() == nil {
			a.log.Warn("delete old history", "dir", a.dir, "err", pebblefs.FirstLine(err))
		}
		select {
		case <-ticker.C:
		case <-a.ctx.Done():
			return
		}
	}
}

// Trim deletes the versions that the policy does not retain. An archive calls it periodically after
// Start. It returns the errors of CatchUp and of the database.
func (a *Archive) Trim(ctx context.Context) error {
	// All changes until now must be archived first, because the archive is behind the backend after a start.
	now := a.now()
	if _, err := a.CatchUp(ctx); err != nil {
		return err
	}
	db, err := a.acquire()
	if err != nil {
		return err
	}
	defer a.release()
	a.trimming.Lock()
	defer a.trimming.Unlock()
	if a.Position() == 0 {
		return nil
	}
	for resource := range a.withRules() {
		rule := a.policy.rule(resource)
		to, err := a.floorAt(db, resource, now, rule.MaxAge)
		if err != nil {
			return err
		}
		if err := a.trimTo(ctx, db, resource, to); err != nil {
			return err
		}
		if rule.MaxVersions > 0 {
			if err := a.trimVersions(ctx, db, resource, rule.MaxVersions); err != nil {
				return err
			}
		}
	}
	if err := a.trimGaps(db); err != nil {
		return err
	}
	return a.limitSize(ctx, db)
}

// withRules yields the resources with a rule, and "" for all other resources.
func (a *Archive) withRules() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield("") {
			return
		}
		for resource := range a.policy.Resources {
			if !yield(resource) {
				return
			}
		}
	}
}

// floorAt returns the floor of a resource for a maximum age. This is the newest revision before which all
// changes are older. It does not use revisionAt, because a clock may have been wrong for some time: changes with
// an earlier time than the changes before them must not cause the deletion of these changes. Changes with a time
// in the future neither cause nor prevent deletions.
func (a *Archive) floorAt(db *database, resource string, now time.Time, age time.Duration) (floor, error) {
	to := a.oldest()
	a.mu.Lock()
	if f := a.mu.floors[resource]; f.revision > to.revision {
		to = f
	}
	a.mu.Unlock()
	t := now.Add(-age)
	if !t.After(to.time) {
		return to, nil
	}
	it, err := db.changes(to.revision+1, a.Position())
	if err != nil {
		return to, err
	}
	defer it.Close()
	to.time = t
	for ok := it.First(); ok; ok = it.Next() {
		c, err := decodeChange(it.Key(), it.Value())
		switch {
		case err != nil:
			return to, db.explain("read the history", err)
		case c.time.After(now):
		case c.time.After(t):
			return to, nil
		default:
			to.revision = c.revision
		}
	}
	return to, db.explain("read the history", it.Error())
}

// trimTo deletes the versions of a resource that were replaced up to a revision. It moves the floor
// first, so that readers notice the missing versions. If it is interrupted, the next call continues it.
func (a *Archive) trimTo(ctx context.Context, db *database, resource string, to floor) error {
	a.mu.Lock()
	if was := a.mu.floors[resource]; to.revision > was.revision || to.revision == was.revision && to.time.After(was.time) {
		a.mu.floors[resource] = to
	}
	to, from := a.mu.floors[resource], a.mu.trimmed[resource]
	a.mu.Unlock()
	if to.revision <= from.revision {
		return nil
	}
	it, err := db.changes(from.revision+1, to.revision)
	if err != nil {
		return err
	}
	defer it.Close()
	t := newTrimBatch(db)
	for ok := it.First(); ok; ok = it.Next() {
		c, err := decodeChange(it.Key(), it.Value())
		if err != nil {
			return db.explain("read the history", err)
		}
		if t.Len() >= batchBytes && c.revision > t.last.revision {
			if err := errors.Join(ctx.Err(), a.applyTrim(t, resource, t.last)); err != nil {
				return err
			}
			t = newTrimBatch(db)
		}
		t.last = floor{c.revision, c.time}
		if a.resourceOf(c.key) == resource {
			t.delete(&c)
		}
	}
	if it.Error() != nil {
		return db.explain("read the history", it.Error())
	}
	return a.applyTrim(t, resource, to)
}

// applyTrim applies a batch that deletes the last versions that were replaced up to at, and records at as the
// floor.
func (a *Archive) applyTrim(t *trimBatch, resource string, at floor) error {
	_ = t.Set(floorKey(resource), at.value(), nil)
	if err := t.apply(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.trimmed[resource] = at
	return nil
}

// trimBatch deletes versions that were replaced.
type trimBatch struct {
	*pebble.Batch
	db *database
	// newest contains the revision of the newest version of each key with deleted versions. This version is
	// retained.
	newest map[string]kv.Revision
	last   floor // revision and time of the last change
}

func newTrimBatch(db *database) *trimBatch {
	return &trimBatch{db: db, Batch: db.NewBatch(), newest: map[string]kv.Revision{}}
}

// delete deletes the version that a change replaced, and the change.
func (t *trimBatch) delete(c *change) {
	if c.previous > 0 {
		_ = t.Delete(versionkey.Append(nil, c.key, c.previous), nil)
	}
	if c.deleted {
		_ = t.Delete(versionkey.Append(nil, c.key, c.revision), nil)
		delete(t.newest, c.key)
	} else if c.previous > 0 {
		t.newest[c.key] = c.revision
	}
	_ = t.Delete(changeKey(c.revision, c.key), nil)
}

// apply makes the remaining versions independent of the deleted versions, and applies the batch.
func (t *trimBatch) apply() error {
	for key, at := range t.newest {
		if err := t.complete(key, at); err != nil {
			return t.db.explain("read the history", err)
		}
	}
	return t.db.apply(t.Batch)
}

// complete writes the complete value of a version, which may be stored as a delta.
func (t *trimBatch) complete(key string, at kv.Revision) error {
	v, err := t.db.version(key, at)
	if err != nil || v == nil {
		return err
	}
	putVersion(t.Batch, nil, v)
	return nil
}

// trimVersions deletes the oldest versions of each key of a resource that has more than the maximum number of
// versions.
func (a *Archive) trimVersions(ctx context.Context, db *database, resource string, most int) error {
	start := a.prefix
	if resource != "" {
		start += resource + "/"
	}
	bounds := versionkey.Bounds(start, kv.PrefixEnd(start))
	it, err := db.NewIter(&bounds)
	if err != nil {
		return db.explain("read the history", err)
	}
	defer it.Close()
	t := versionTrimmer{a: a, db: db, resource: resource, most: most, batch: newTrimBatch(db)}
	for ok := it.First(); ok; ok = it.Next() {
		if err := errors.Join(ctx.Err(), t.visit(it)); err != nil {
			return err
		}
	}
	return errors.Join(db.explain("read the history", it.Error()), t.write())
}

// versionTrimmer deletes the versions of one key after another.
type versionTrimmer struct {
	a        *Archive
	db       *database
	resource string
	most     int

	key     string
	visited int   // number of visited versions of key
	oldest  floor // oldest kept version of key
	// batch contains the deletions. If it is large, it is written before the next key.
	batch *trimBatch
	// floor is the newest revision at which any key with deleted versions has its oldest kept version.
	// Earlier states are incomplete.
	floor floor
}

// visit handles the version at the iterator. The versions of a key are visited in order, starting with the
// newest one.
func (t *versionTrimmer) visit(it *pebble.Iterator) error {
	key, rev, err := versionkey.Split(it.Key())
	if err != nil {
		return t.db.explain("read the history", err)
	}
	if string(key) != t.key {
		if t.batch.Len() >= batchBytes {
			if err := t.write(); err != nil {
				return err
			}
		}
		t.key, t.visited = string(key), 0
	}
	if t.a.resourceOf(t.key) != t.resource {
		return nil
	}
	t.visited++
	if t.visited <= t.most {
		v, err := decodeVersion(t.key, rev, it.Value())
		t.oldest = floor{rev, v.time}
		return t.db.explain("read the history", err)
	}
	if t.visited == t.most+1 { // the first deleted version of the key
		if t.oldest.revision > t.floor.revision {
			t.floor = t.oldest
		}
		if err := t.batch.complete(t.key, t.oldest.revision); err != nil {
			return t.db.explain("read the history", err)
		}
	}
	return t.batch.Delete(it.Key(), nil)
}

// write moves the floor of the resource, and then applies the batch.
func (t *versionTrimmer) write() error {
	if t.batch.Empty() {
		return nil
	}
	t.a.mu.Lock()
	if t.floor.revision > t.a.mu.counted[t.resource].revision {
		t.a.mu.counted[t.resource] = t.floor
	}
	at := t.a.mu.counted[t.resource]
	t.a.mu.Unlock()
	_ = t.batch.Set(countKey(t.resource), at.value(), nil)
	err := t.batch.apply()
	t.batch = newTrimBatch(t.db)
	return err
}

// trimGaps removes the gaps before the floors of all resources, except the gap before the first resync.
func (a *Archive) trimGaps(db *database) error {
	oldest := a.oldest()
	b := db.NewBatch()
	a.mu.Lock()
	a.mu.gaps = slices.DeleteFunc(a.mu.gaps, func(g gap) bool {
		gone := g.from > 0 && g.to < oldest.revision
		if gone {
			_ = b.Delete(gapKey(g.from), nil)
		}
		return gone
	})
	a.mu.Unlock()
	return db.apply(b)
}

// limitSize deletes the oldest part of the history if the archive is larger than the limit. The part is in
// proportion to the excess, but at least an eighth. If maxLimitSteps parts are not enough, it deletes all
// versions except the newest ones. The size of the newest versions then replaces the limit, so that the
// archive is not compacted again and again.
func (a *Archive) limitSize(ctx context.Context, db *database) error {
	for step := 1; ; step++ {
		size := db.size()
		oldest, newest := a.oldest(), a.Position()
		if size <= max(a.policy.MaxBytes, a.smallest+a.smallest/4) {
			return nil
		}
		if oldest.revision >= newest {
			a.smallest = size
			a.log.Warn("the present objects are larger than the maximum size of the history, which therefore contains little else: increase the maximum size", "dir", a.dir, "bytes", size, "limit", a.policy.MaxBytes)
			return nil
		}
		part := max(float64(size-a.policy.MaxBytes*9/10)/float64(size), 1./8)
		if step > maxLimitSteps {
			part = 1
		}
		to := floor{revision: oldest.revision + max(kv.Revision(part*float64(newest-oldest.revision)), 1)}
		var err error
		if to.time, err = db.timeOf(to.revision); err != nil {
			return err
		}
		if to.time.IsZero() {
			to.time = oldest.time // all changes up to this revision are already deleted
		}
		a.log.Warn("the history is too large: its oldest part is deleted", "dir", a.dir, "bytes", size, "limit", a.policy.MaxBytes, "before", to.time.UTC().Format(time.RFC3339))
		a.metrics.limited()
		for resource := range a.withRules() {
			if err := a.trimTo(ctx, db, resource, to); err != nil {
				return err
			}
		}
		if err := db.reclaim(ctx); err != nil {
			return err
		}
	}
}

// maxLimitSteps is the maximum number of parts that limitSize deletes, each followed by a compaction.
const maxLimitSteps = 4

// size returns the size of the database on disk, in bytes, without tables that are about to be deleted.
func (db *database) size() int64 { return int64(db.Metrics().Table.Local.LiveSize) }

// reclaim rewrites all tables, which frees the space of deleted versions.
func (db *database) reclaim(ctx context.Context) error {
	if err := db.flush(); err != nil {
		return err
	}
	if err := db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
		return db.explain("compact the history", err)
	}
	return db.failure()
}
