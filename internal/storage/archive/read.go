package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/versionkey"
)

// ExpiredError reports that the archive does not have a requested state. It wraps a kv.CompactedError.
type ExpiredError struct {
	// Resource is the storage path of the resource; "" if the state of all resources is missing.
	Resource string
	// From and To are the times between which the state is unknown. From is zero if the state is
	// unknown at all times before To, and To is zero if the time is unknown.
	From, To time.Time
}

func (e *ExpiredError) Error() string {
	of := "the history"
	if e.Resource != "" {
		of = "the history of " + e.Resource
	}
	switch {
	case e.To.IsZero():
		return of + " does not reach back that far"
	case e.From.IsZero():
		return fmt.Sprintf("%s begins at %s", of, e.To.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s is missing between %s and %s, because no history was recorded then",
		of, e.From.UTC().Format(time.RFC3339), e.To.UTC().Format(time.RFC3339))
}

// Unwrap returns a *kv.CompactedError with the message.
func (e *ExpiredError) Unwrap() error { return &kv.CompactedError{Message: e.Error()} }

// checkGaps returns an *ExpiredError if the states at a revision are unknown.
func (a *Archive) checkGaps(at kv.Revision) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.mu.gaps {
		if g.from < at && at < g.to {
			return &ExpiredError{From: g.fromTime, To: g.toTime}
		}
	}
	return nil
}

// checkFloor returns an *ExpiredError if the state of the keys with a prefix is incomplete at a revision. It
// must be called after the iterator of the read was created, because trimTo moves a floor before it deletes
// versions.
func (a *Archive) checkFloor(prefix string, at kv.Revision) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource, least := a.floorLocked(prefix)
	if at >= least.revision {
		return nil
	}
	return &ExpiredError{Resource: resource, To: least.time}
}

// floorLocked returns the floor of the keys with a prefix. For a prefix of several resources, it returns the
// newest of their floors.
func (a *Archive) floorLocked(prefix string) (resource string, newest floor) {
	rest := strings.TrimPrefix(prefix, a.prefix)
	several := !strings.Contains(rest, "/")
	newest = a.mu.floors[a.resourceOf(prefix)]
	for _, floors := range []map[string]floor{a.mu.floors, a.mu.counted} {
		for of, f := range floors {
			applies := several && strings.HasPrefix(of, rest) || of != "" && strings.HasPrefix(rest, of+"/")
			if applies && f.revision > newest.revision {
				resource, newest = of, f
			}
		}
	}
	if f := a.mu.counted[""]; a.resourceOf(prefix) == "" && f.revision > newest.revision {
		newest = f
	}
	return resource, newest
}

// oldest returns the floor of the resource with the longest history.
func (a *Archive) oldest() floor {
	a.mu.Lock()
	defer a.mu.Unlock()
	oldest := a.mu.floors[""]
	for _, f := range a.mu.floors {
		if f.revision < oldest.revision || f.revision == oldest.revision && f.time.Before(oldest.time) {
			oldest = f
		}
	}
	if oldest.revision < a.mu.start {
		oldest = floor{revision: a.mu.start, time: a.mu.gaps[0].toTime}
	}
	return oldest
}

// RevisionAt returns the newest revision that is not newer than a time. For a time that is not in the
// past, it returns the newest revision of the backend. The error is an *ExpiredError if the state at
// the time is unknown. If the clock was set back, several revisions may have the same time; RevisionAt
// returns one of them.
func (a *Archive) RevisionAt(ctx context.Context, t time.Time) (kv.Revision, error) {
	newest, err := a.CatchUp(ctx)
	if err != nil {
		return 0, err
	}
	if !t.Before(a.now()) {
		return newest, nil
	}
	if err := a.checkTime(t); err != nil {
		return 0, err
	}
	db, err := a.acquire()
	if err != nil {
		return 0, err
	}
	defer a.release()
	oldest := a.oldest()
	if t.Before(oldest.time) {
		return 0, &ExpiredError{To: oldest.time}
	}
	return db.revisionAt(t, oldest.revision, newest)
}

var errNoChange = errors.New("there is no such change")

// revisionAt returns the newest revision of [lo, hi] that is not newer than a time. lo must not be newer than
// the time.
func (db *database) revisionAt(t time.Time, lo, hi kv.Revision) (kv.Revision, error) {
	it, err := db.changes(0, hi)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	// The revision is at least lo, and all changes after hi are newer than t.
	for lo < hi {
		mid := lo + (hi-lo)/2
		c, err := firstChange(it, mid+1)
		switch {
		case errors.Is(err, errNoChange):
			hi = mid
		case err != nil:
			return 0, db.explain("read the history", err)
		case c.revision > hi || c.time.After(t):
			hi = mid
		default:
			lo = c.revision
		}
	}
	return lo, nil
}

// firstChange returns the first change from a revision on, or errNoChange.
func firstChange(it *pebble.Iterator, from kv.Revision) (change, error) {
	if !it.SeekGE(changeKey(from, "")) {
		return change{}, cmp.Or(it.Error(), errNoChange)
	}
	raw, err := it.ValueAndErr()
	if err != nil {
		return change{}, err
	}
	return decodeChange(it.Key(), raw)
}

// checkTime returns an *ExpiredError if the states at a time are unknown.
func (a *Archive) checkTime(t time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.mu.gaps {
		if t.After(g.fromTime) && t.Before(g.toTime) {
			return &ExpiredError{From: g.fromTime, To: g.toTime}
		}
	}
	return nil
}

// TimeOf returns the time of the newest change that is not newer than a revision; zero if it is
// unknown. It returns the same errors as Changes.
func (a *Archive) TimeOf(at kv.Revision) (time.Time, error) {
	db, err := a.acquire()
	if err != nil {
		return time.Time{}, err
	}
	defer a.release()
	return db.timeOf(at)
}

// timeOf implements TimeOf.
func (db *database) timeOf(at kv.Revision) (time.Time, error) {
	it, err := db.changes(0, at)
	if err != nil {
		return time.Time{}, err
	}
	defer it.Close()
	if !it.Last() {
		return time.Time{}, db.explain("read the history", it.Error())
	}
	c, err := decodeChange(it.Key(), it.Value())
	return c.time, db.explain("read the history", err)
}

// changes returns an iterator over the changes with revisions in [from, to]. If to is less than from, the
// iterator is empty.
func (db *database) changes(from, to kv.Revision) (*pebble.Iterator, error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: changeKey(from, ""), UpperBound: changeKey(max(from, to+1), "")})
	return it, db.explain("read the history", err)
}

// get returns the entry of a key at a revision that has been archived, or nil.
func (a *Archive) get(key string, at kv.Revision) (*kv.Entry, error) {
	db, err := a.acquire()
	if err != nil {
		return nil, err
	}
	defer a.release()
	bounds := versionkey.Bounds(key, "")
	it, err := db.NewIter(&bounds)
	if err != nil {
		return nil, db.explain("read the history", err)
	}
	defer it.Close()
	c := versionkey.NewCursor(it, at, nil)
	if !c.Seek(key) {
		if it.Error() != nil {
			return nil, db.explain("read the history", it.Error())
		}
		return nil, a.checkFloor(key, at) // the version may have been deleted
	}
	v, err := readVersion(it, key)
	if err != nil || v.deleted {
		return nil, db.explain("read the history", err)
	}
	return v.entry(), nil
}

// scan reads a range at a revision that has been archived.
func (a *Archive) scan(ctx context.Context, req *kv.RangeRequest, at kv.Revision) (kv.RangeResult, error) {
	res := kv.RangeResult{Revision: at}
	db, err := a.acquire()
	if err != nil {
		return res, err
	}
	defer a.release()
	bounds := versionkey.Bounds(req.Start, req.End)
	it, err := db.NewIter(&bounds)
	if err != nil {
		return res, db.explain("read the history", err)
	}
	defer it.Close()
	if err := a.checkFloor(req.Start, at); err != nil {
		return res, err
	}
	c := versionkey.NewCursor(it, at, nil)
	for first := true; ; first = false {
		key, err := c.Next(first)
		if err != nil {
			return res, db.explain("read the history", err)
		}
		if key == nil {
			return res, nil
		}
		if req.Limit > 0 && len(res.Entries) == req.Limit && !req.CountOnly {
			res.More = true
			if !req.WithCount {
				res.Count = 0
				return res, nil
			}
		}
		if res.Count++; res.Count%256 == 0 && ctx.Err() != nil {
			return res, ctx.Err()
		}
		if res.More || req.CountOnly {
			continue
		}
		v, err := readVersion(it, string(key))
		if err != nil {
			return res, db.explain("read the history", err)
		}
		res.Entries = append(res.Entries, *v.entry())
	}
}
