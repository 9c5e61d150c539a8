package embedded

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
	"mainstay.dev/mainstay/internal/storage/kv/pebblefs"
)

// loadState returns the state of a newly opened engine. It returns ErrLostWrites if acknowledged
// writes are missing and must not be ignored.
func (s *Store) loadState(e *engine) (state, error) {
	noted, err := s.disk.readAcked()
	if err != nil {
		return state{}, err
	}
	st, err := e.loadAcknowledged(noted)
	if err != nil && !errors.Is(err, ErrLostWrites) {
		return st, err
	}
	if err == nil {
		err = e.checkContiguous(st, maxUnflushedCommits)
	}
	switch {
	case err == nil:
		return st, nil
	case !errors.Is(err, ErrLostWrites):
		// The check found damage elsewhere. The store still serves undamaged data, and Health reports
		// the damage.
		s.log.Warn("cannot check for missing commits", "dir", s.disk.dir, "err", pebblefs.FirstLine(err))
		return st, nil
	case !s.acceptLost || e.readOnly:
		return st, err
	}
	at, failed := e.acceptLoss(st, noted)
	if failed != nil {
		return st, fmt.Errorf("continue without the lost writes: %w", failed)
	}
	s.log.Error("acknowledged writes are lost; the store continues without them, as configured", "dir", s.disk.dir, "lost", pebblefs.FirstLine(err), "revision", at)
	return e.loadState()
}

// state is the state of a newly opened engine.
type state struct {
	// first is the revision at which the store was created, restored, or continued after lost writes.
	first                        kv.Revision
	revision, compacted, trimmed kv.Revision
	// firstExpiry is the expiration time of the first key that expires, in Unix seconds, or 0.
	firstExpiry int64
	// uptime is the last recorded uptime, and recorded is the time of that record, which is zero if there is
	// none.
	uptime   time.Duration
	recorded time.Time
	// marks are in ascending order of revision.
	marks []history.Mark
	pins  PinSet
}

// errNoFormat reports that the format version is missing. The format version is the first key that is written
// to a store.
var errNoFormat = fmt.Errorf("it has no format version: %w", kv.ErrCorrupt)

func (e *engine) loadState() (state, error) {
	var st state
	format, err := e.meta(metaFormat)
	if err != nil {
		return st, err
	}
	if format == 0 {
		return st, explain("open the store", e.dir, errNoFormat)
	}
	if format != formatVersion {
		return st, fmt.Errorf("data directory %s has format %d, and this version of Mainstay reads format %d: run a version that is at least as new as the one that wrote it",
			e.dir, format, formatVersion)
	}
	for _, m := range []struct {
		name string
		to   *kv.Revision
	}{{metaRevision, &st.first}, {metaCompacted, &st.compacted}, {metaTrimmed, &st.trimmed}} {
		if *m.to, err = e.meta(m.name); err != nil {
			return st, err
		}
	}
	last, err := e.lastLogged()
	if err != nil {
		return st, err
	}
	st.revision = max(st.first, last)
	if st.firstExpiry, err = e.firstExpiry(); err != nil {
		return st, err
	}
	if err := e.loadUptime(&st); err != nil {
		return st, err
	}
	if st.pins, err = e.loadPins(); err != nil {
		return st, err
	}
	return st, e.loadMarks(&st)
}

// loadUptime reads the recorded uptime.
func (e *engine) loadUptime(st *state) error {
	uptime, err := e.meta(metaUptime)
	if err != nil {
		return err
	}
	recorded, err := e.meta(metaRecorded)
	if err != nil {
		return err
	}
	if uptime < 0 || uptime > maxUptime {
		return e.wrapError("read uptime", corruptError("an uptime of %d ms", uptime))
	}
	st.uptime = time.Duration(uptime) * time.Millisecond
	if recorded != 0 {
		st.recorded = time.UnixMilli(int64(recorded))
	}
	return nil
}

// meta returns the value of a metadata key, or 0 if the key does not exist.
func (e *engine) meta(name string) (kv.Revision, error) {
	raw, closer, err := e.db.Get([]byte(name))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, e.wrapError("read "+name[1:], err)
	}
	defer closer.Close()
	rev, err := decodeRevision(raw)
	if err != nil {
		return 0, e.wrapError("read "+name[1:], err)
	}
	return rev, nil
}

// lastLogged returns the revision of the last log record, or 0 if there is none.
func (e *engine) lastLogged() (kv.Revision, error) {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixLog}, UpperBound: []byte{prefixLog + 1}})
	if err != nil {
		return 0, e.wrapError("read the change log", err)
	}
	var rev kv.Revision
	if it.Last() {
		rev, err = logRevision(it.Key())
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return 0, e.wrapError("read the change log", err)
	}
	return rev, nil
}
