package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// Hold implements kv.Backend.
func (s *Store) Hold(ctx context.Context, at kv.Revision) (kv.Revision, func(), error) {
	return s.hold(ctx, at, kv.MaxHold)
}

// hold is like Hold, with the given maximum duration; 0 means no limit.
func (s *Store) hold(ctx context.Context, at kv.Revision, limit time.Duration) (kv.Revision, func(), error) {
	for {
		if err := s.checkOpen(ctx); err != nil {
			return 0, nil, err
		}
		newest := kv.Revision(s.published.Load())
		if err := checkFuture(at, newest); err != nil {
			return 0, nil, fmt.Errorf("hold: %w", err)
		}
		held := at
		if at == 0 {
			held = newest
		}
		release, err := s.holds.Add(ctx, held, limit)
		if at == 0 && errors.Is(err, kv.ErrCompacted) {
			continue // the newest revision was compacted in the meantime
		}
		return held, release, err
	}
}

// grant requests compaction to a revision, and returns the newest revision to which the holds permit
// compaction; see history.Holds.Grant.
func (s *Store) grant(to kv.Revision) kv.Revision {
	granted, expired := s.holds.Grant(to)
	for _, x := range expired {
		s.log.Warn("history was held for too long; the hold is released", "dir", s.disk.dir, "revision", x.Revision, "age", x.Age)
	}
	return granted
}
