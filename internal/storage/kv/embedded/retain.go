package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
)

// maxMarkInterval is the maximum time between marks of the newest revision while there are writes. Marks are
// more frequent if the retention is short.
const maxMarkInterval = time.Minute

// uptimeClock measures the total time that a store was open. The age of history is measured by it, because it
// is independent of the machine's clock and stops while no server runs. Clients that return after a downtime
// therefore find the history that they need.
type uptimeClock struct {
	// before is the total of the previous runs.
	before time.Duration
	opened time.Time // by the monotonic clock; zero until the store is open
	// recorded is the value on disk. Only start and writeMark use it.
	recorded time.Duration
}

func (x *uptimeClock) now() time.Duration { return x.before + time.Since(x.opened) }

// start starts the current run. After a crash, the recorded uptime does not include the end of the last run,
// so the time since the record is added, up to limit. If the clock was set back, limit is added, so that
// history is compacted too early rather than too late.
func (x *uptimeClock) start(st *state, now time.Time, limit time.Duration) {
	x.opened = time.Now()
	x.before, x.recorded = st.uptime, st.uptime
	if st.recorded.IsZero() {
		return
	}
	since := now.Sub(st.recorded)
	if since < 0 || since > limit {
		since = limit
	}
	x.before += since
}

// markInterval returns the time between two marks.
func (s *Store) markInterval() time.Duration {
	if s.retention < 0 {
		return maxMarkInterval
	}
	return min(max(s.retention/20, 10*time.Millisecond), maxMarkInterval)
}

// retainHistory compacts history that is older than the retention and not held, and writes marks,
// until Close.
func (s *Store) retainHistory() {
	every := 10 * time.Second
	if s.retention > 0 {
		every = min(max(s.retention/20, 10*time.Millisecond), every)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	s.markTime()
	marked := s.uptime.now()
	sweep := true // the last run may have removed pins
	var assigned kv.Revision
	for {
		// The first compaction runs immediately, because the process may end before the first tick. Compact
		// also continues earlier compactions that were interrupted or held.
		if err := s.Compact(s.ctx, s.newestExpired()); err != nil {
			s.logFailure("compact history", err)
		}
		if sweep {
			if err := s.sweep(s.ctx); err != nil {
				s.logFailure("compact history", err)
			}
			sweep = false
		}
		select {
		case <-s.ctx.Done():
			return
		case <-s.holds.Released():
		case <-s.unpinned:
			sweep = true
		case <-ticker.C:
			assigned = s.releaseMemory(assigned)
			if now := s.uptime.now(); now-marked >= s.markInterval() {
				s.markTime()
				marked = now
			}
		}
	}
}

// newestExpired returns the newest revision older than the retention, or 0 if there is none.
func (s *Store) newestExpired() kv.Revision {
	if s.retention < 0 {
		return 0
	}
	return s.marks.AtUptime(s.uptime.now() - s.retention)
}

// releaseMemory drops the cached commits up to last, which must be the result of the previous call. An idle
// store therefore caches no commits. releaseMemory returns the newest revision.
func (s *Store) releaseMemory(last kv.Revision) kv.Revision {
	s.ring.forget(last)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.assigned == last {
		s.mu.recent.rotate(last, kv.Revision(s.published.Load()))
	}
	return s.mu.assigned
}

// markTime records the newest revision and the uptime at the current time.
func (s *Store) markTime() {
	e, err := s.acquireForWrite()
	if err != nil {
		return // without an engine, there are no commits
	}
	defer s.release()
	if err := s.writeMark(e); err != nil {
		s.logFailure("mark the time", err)
	}
}

// writeMark writes the record of markTime. A mark needs no fsync: the next commit, the next record without a
// mark, or the end of the run makes it durable. A record without a mark is synced, because there might be no
// later commit.
func (s *Store) writeMark(e *engine) error {
	newest := kv.Revision(s.published.Load())
	mark := history.Mark{Revision: newest, Time: s.now(), Uptime: s.uptime.now()}
	thinned, added := s.marks.Add(mark)
	ages := s.retention > 0 && newest > kv.Revision(s.compacted.Load())
	if !added && (!ages || mark.Uptime-s.uptime.recorded < min(minUptimeRecord, s.markInterval())) {
		return nil
	}
	b := e.db.NewBatch()
	defer b.Close()
	for _, old := range thinned {
		_ = b.Delete(markKey(old.Revision), nil)
	}
	if added {
		_ = b.Set(markKey(newest), markValue(mark), nil)
	}
	_ = b.Set([]byte(metaUptime), uintValue(uint64(mark.Uptime/time.Millisecond)), nil)
	_ = b.Set([]byte(metaRecorded), uintValue(uint64(mark.Time.UnixMilli())), nil)
	durable := pebble.NoSync
	if !added {
		durable = pebble.Sync
	}
	if err := e.db.Apply(b, durable); err != nil {
		return e.wrapError("write", err)
	}
	s.uptime.recorded = mark.Uptime
	return nil
}

// minUptimeRecord is the minimum increase of the uptime that is recorded without a mark. Shorter times are
// not lost, because the time since the last record counts at the next start.
const minUptimeRecord = time.Second

// RevisionAt implements kv.Backend. It covers the whole history, including that of earlier runs.
func (s *Store) RevisionAt(ctx context.Context, t time.Time) (kv.Revision, error) {
	if err := s.checkOpen(ctx); err != nil {
		return 0, err
	}
	newest, now := kv.Revision(s.published.Load()), s.now()
	if !t.Before(now) {
		return newest, nil
	}
	rev, ok := s.marks.AtTime(t, now)
	if !ok || rev < kv.Revision(s.compacted.Load()) {
		return 0, fmt.Errorf("the revision at %s: %w", t.UTC().Format(time.RFC3339), kv.ErrCompacted)
	}
	return rev, nil
}

// loadMarks loads the marks of earlier runs. It ignores invalid marks, which only makes RevisionAt
// less precise. They are removed with the history.
func (e *engine) loadMarks(st *state) error {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: markKey(st.compacted), UpperBound: []byte{prefixMark + 1}})
	if err != nil {
		return e.wrapError("read marks", err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		mark, err := decodeMark(it.Key(), it.Value())
		if err == nil && mark.Revision > st.revision {
			err = corruptError("the newest revision is %d", st.revision)
		}
		if err != nil {
			e.disk.log.Warn("an invalid time mark is ignored", "dir", e.dir, "err", err)
			continue
		}
		st.marks = append(st.marks, mark)
		st.uptime = max(st.uptime, mark.Uptime)
	}
	return e.wrapError("read marks", it.Error())
}

// markKey returns the key of the mark of a revision.
func markKey(rev kv.Revision) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixMark}, uint64(rev))
}

func markValue(m history.Mark) []byte {
	v := uintValue(uint64(m.Time.UnixMilli()))
	return binary.BigEndian.AppendUint64(v, uint64(m.Uptime/time.Millisecond))
}

func decodeMark(key, value []byte) (history.Mark, error) {
	if len(key) != 9 || key[0] != prefixMark || len(value) != 16 {
		return history.Mark{}, fmt.Errorf("malformed mark %q of %d bytes: %w", key, len(value), kv.ErrCorrupt)
	}
	m := history.Mark{
		Revision: kv.Revision(binary.BigEndian.Uint64(key[1:])),
		Time:     time.UnixMilli(int64(binary.BigEndian.Uint64(value))),
	}
	uptime := binary.BigEndian.Uint64(value[8:])
	if uptime > maxUptime {
		return history.Mark{}, fmt.Errorf("mark of revision %d at an uptime of %d ms: %w", m.Revision, uptime, kv.ErrCorrupt)
	}
	m.Uptime = time.Duration(uptime) * time.Millisecond
	return m, nil
}

// maxUptime is the maximum valid uptime, in milliseconds: a hundred years.
const maxUptime = 100 * 366 * 24 * 3600 * 1000

func uintValue(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
