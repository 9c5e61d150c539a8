package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/history"
)

// markInterval is the time between two marks.
const markInterval = time.Minute

// Hold implements kv.Backend. It prevents compaction by this client; other clients of the cluster
// can still compact.
func (s *Store) Hold(ctx context.Context, at kv.Revision) (kv.Revision, func(), error) {
	for {
		held, release, err := s.hold(ctx, at)
		switch {
		case err == nil:
			return held, release, nil
		case at == 0 && errors.Is(err, kv.ErrCompacted):
			// Try again, because the newest revision was compacted after it was read.
		default:
			return 0, nil, fmt.Errorf("hold revision %d: %w", at, err)
		}
	}
}

func (s *Store) hold(ctx context.Context, at kv.Revision) (kv.Revision, func(), error) {
	if at == 0 {
		newest, err := s.newest(ctx)
		if err != nil {
			return 0, nil, err
		}
		at = newest
	}
	release, err := s.holds.Add(ctx, at, kv.MaxHold)
	if err != nil {
		return 0, nil, err
	}
	// The revision may have been compacted before it was held.
	if _, _, err := s.Get(ctx, string(s.healthKey), at); err != nil {
		release()
		return 0, nil, err
	}
	return at, release, nil
}

// grant requests compaction to a revision, and returns the newest revision to which the holds permit
// compaction; see history.Holds.Grant.
func (s *Store) grant(to kv.Revision) kv.Revision {
	granted, expired := s.holds.Grant(to)
	for _, x := range expired {
		s.log.Warn("history was held for too long; the hold is released", "revision", x.Revision, "age", x.Age)
	}
	return granted
}

// recordTimes requests the newest revision once per markInterval until Close, so that its time is recorded
// even if there are no other requests.
func (s *Store) recordTimes() {
	ticker := time.NewTicker(markInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = s.newest(s.ctx) // if etcd is unavailable, there is no revision to mark
		case <-s.ctx.Done():
			return
		}
	}
}

// recordTime records the time of a revision that is or recently was the newest, at most once per
// markInterval.
func (s *Store) recordTime(revision kv.Revision) {
	now := time.Now()
	if last, ok := s.marks.Last(); ok {
		since := now.Sub(last.Time)
		if since >= 0 && since < markInterval {
			return
		}
	}
	s.marks.Forget(kv.Revision(s.compacted.Load()))
	s.marks.Add(history.Mark{Revision: revision, Time: now})
}

// RevisionAt implements kv.Backend. It returns only revisions since the start of this process,
// because times are not stored in etcd.
func (s *Store) RevisionAt(ctx context.Context, t time.Time) (kv.Revision, error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return 0, fmt.Errorf("the revision at %s: %w", t.UTC().Format(time.RFC3339), err)
	}
	now := time.Now()
	if !t.Before(now) {
		return newest, nil
	}
	revision, ok := s.marks.AtTime(t, now)
	if !ok || revision < kv.Revision(s.compacted.Load()) {
		return 0, fmt.Errorf("the revision at %s: %w", t.UTC().Format(time.RFC3339), kv.ErrCompacted)
	}
	return revision, nil
}
