package archive

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Change is one change of one key.
type Change struct {
	Key      string
	Revision kv.Revision
	Time     time.Time
	Deleted  bool
	// Origin is the kv.Op.Origin of the commit; empty if it is unknown.
	Origin []byte
	// Before and After are the versions of the key before and after the change; nil if the key did not exist.
	// Before is also nil if its version was deleted from the archive.
	Before, After *kv.Entry
}

// Created reports whether the change created the key.
func (c *Change) Created() bool { return c.After != nil && c.After.Created == c.Revision }

// Changes calls visit for the changes with revisions in [from, to] and matching keys, in order of revisions
// and keys, until visit returns false. The archive must have reached the revision to. Changes before the
// floor of a resource may be missing. visit must not call methods of the archive. Changes returns the error
// of ctx, kv.ErrClosed after Close, or an error that wraps kv.ErrCorrupt or kv.ErrUnavailable if the archive
// cannot be read.
func (a *Archive) Changes(ctx context.Context, from, to kv.Revision, matches func(key string) bool, visit func(*Change) (more bool)) error {
	db, err := a.acquire()
	if err != nil {
		return err
	}
	defer a.release()
	it, err := db.changes(from, to)
	if err != nil {
		return err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c, err := decodeChange(it.Key(), it.Value())
		if err != nil {
			return db.explain("read the history", err)
		}
		if !matches(c.key) {
			continue
		}
		ev, err := db.event(&c)
		if err != nil {
			return db.explain("read the history", err)
		}
		out := &Change{Key: c.key, Revision: c.revision, Time: c.time, Deleted: c.deleted, Origin: ev.Origin, Before: ev.Prev}
		if !c.deleted {
			if ev.Created == 0 {
				continue // the version was deleted in the meantime
			}
			out.After = &kv.Entry{Key: c.key, Value: ev.Value, Created: ev.Created, Modified: c.revision}
		}
		if !visit(out) {
			return nil
		}
	}
	return db.explain("read the history", it.Error())
}

// Versions calls visit for the changes of one key up to a revision, the oldest first, until visit
// returns false. Like Changes, it omits versions that were copied when the archive was created, and changes before
// the floor of the resource, even if the version is retained because it is the newest one. The errors are the same
// as for Changes.
func (a *Archive) Versions(ctx context.Context, key string, to kv.Revision, visit func(*Change) (more bool)) error {
	if strings.IndexByte(key, 0) >= 0 {
		return nil // no such key exists
	}
	db, err := a.acquire()
	if err != nil {
		return err
	}
	defer a.release()
	a.mu.Lock()
	floor := a.mu.floors[a.resourceOf(key)].revision
	a.mu.Unlock()
	var before *version
	return a.versions(ctx, db, key, func(v *version) bool {
		if v.revision > to {
			return false
		}
		if v.time.IsZero() || v.revision <= floor {
			before = v
			return true
		}
		c := &Change{Key: key, Revision: v.revision, Time: v.time, Deleted: v.deleted, Origin: v.origin}
		if before != nil && !before.deleted {
			c.Before = before.entry()
		}
		if !v.deleted {
			c.After = v.entry()
		}
		before = v
		return visit(c)
	})
}

// Missing returns an error for each gap and each selected resource that lacks changes at or after a revision.
// selected is called with the resources that have their own rule, and with "" for all other resources. It must
// not call methods of the archive. To check the result of a read, call Missing after it, because changes may be
// deleted during the read.
func (a *Archive) Missing(from kv.Revision, selected func(resource string) bool) []*ExpiredError {
	a.mu.Lock()
	defer a.mu.Unlock()
	var missing []*ExpiredError
	for _, g := range a.mu.gaps {
		if g.to >= from {
			missing = append(missing, &ExpiredError{From: g.fromTime, To: g.toTime})
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(a.mu.floors)) {
		newest := a.mu.floors[resource]
		if counted := a.mu.counted[resource]; counted.revision > newest.revision {
			newest = counted
		}
		if newest.revision >= from && selected(resource) {
			missing = append(missing, &ExpiredError{Resource: resource, To: newest.time})
		}
	}
	return missing
}

// Oldest returns the oldest revision whose state can be read, and its time.
func (a *Archive) Oldest() (kv.Revision, time.Time) {
	oldest := a.oldest()
	return oldest.revision, oldest.time
}
