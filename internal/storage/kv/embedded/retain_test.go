package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"mainstay.dev/mainstay/internal/storage/kv"
)

// span returns the length of the history of a store, in commits.
func span(s *Store) int { return int(s.published.Load() - s.compacted.Load()) }

// wallClock is a clock that tests adjust while a store reads it.
type wallClock struct{ off atomic.Int64 } // a time.Duration

func (c *wallClock) jump(by time.Duration) { c.off.Add(int64(by)) }

func (c *wallClock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())).Round(0) }

// TestRetentionOverRuns checks that history ages even if no run of the server is as long as the
// retention, regardless of how runs end and of clock changes. It also checks that history is never deleted in
// one step.
func TestRetentionOverRuns(t *testing.T) {
	t.Parallel()
	const (
		retention = 5 * time.Minute
		perRun    = 12 // commits, at regular intervals
	)
	total := 20 * time.Minute
	if testing.Short() {
		total = 10 * time.Minute
	}
	never := func(int) time.Duration { return 0 }
	for name, c := range map[string]struct {
		killed bool
		run    time.Duration               // duration of a run; 0 means a minute
		down   time.Duration               // time between two runs
		jump   func(run int) time.Duration // clock offset of a run
		within func(run int) time.Duration // clock offset in the second half of a run
	}{
		"stopped":               {jump: never, within: never},
		"killed":                {killed: true, jump: never, within: never},
		"killed soon":           {killed: true, run: 6 * time.Second, jump: never, within: never},
		"stopped soon":          {run: 6 * time.Second, jump: never, within: never},
		"down for days":         {down: 48 * time.Hour, jump: never, within: never},
		"killed, down for days": {killed: true, down: 48 * time.Hour, jump: never, within: never},
		"the clock jumps ahead": {jump: func(run int) time.Duration { return time.Duration(run) * 24 * time.Hour }, within: never},
		"it jumps within runs":  {jump: never, within: func(run int) time.Duration { return time.Duration(run%2) * 1000 * time.Hour }},
		"it falls back":         {jump: func(run int) time.Duration { return -time.Duration(run) * time.Hour }, within: never},
		"killed, it falls back": {killed: true, jump: func(run int) time.Duration { return -time.Duration(run) * time.Hour }, within: never},
		"killed, slow clock":    {killed: true, jump: func(run int) time.Duration { return -time.Duration(run) * (time.Minute + time.Second) }, within: never},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashableMem()
				run := c.run
				if run == 0 {
					run = time.Minute
				}
				perMinute := perRun * int(time.Minute/run)
				for i := range int(total / run) {
					clock := &wallClock{}
					clock.jump(c.jump(i))
					s, err := Open(Config{Dir: "d", FS: disk, Retention: retention, now: clock.now})
					if err != nil {
						t.Fatal(err)
					}
					before := span(s)
					for n := range perRun {
						put(t, s, "k", fmt.Sprint(n))
						time.Sleep(run / perRun)
						if n == perRun/2 {
							clock.jump(c.within(i))
						}
					}
					// At most the commits of two minutes are deleted in a run.
					if deleted := before + perRun - span(s); i > 0 && deleted > 2*perMinute+2 {
						t.Errorf("run %d: %d of %d commits were deleted", i, deleted, before+perRun)
					}
					// History that is younger than the retention must exist.
					if retained := span(s); retained < min(before+perRun, 4*perMinute) {
						t.Errorf("run %d: %d of %d commits are retained", i, retained, before+perRun)
					}
					if c.killed {
						disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(uint64(i), 0))})
					}
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.down)
				}
				s, err := Open(Config{Dir: "d", FS: disk, Retention: retention})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				synctest.Wait() // for the compaction at the start
				if retained := span(s); retained > 7*perMinute {
					t.Errorf("after %s in runs of %s, %d commits are retained; %s contain %d commits", total, run, retained, retention, 5*perMinute)
				}
				checkHistory(t, s)
			})
		})
	}
}

// TestMarksAtRest checks that an idle store writes no more marks after its history was deleted.
func TestMarksAtRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{Dir: "d", FS: vfs.NewMem(), Retention: time.Minute})
		put(t, s, "a", "1")
		put(t, s, "a", "2")
		time.Sleep(5 * time.Minute)
		if n := span(s); n != 0 {
			t.Fatalf("history of %d commits at rest", n)
		}
		written := func() uint64 { return s.engine.db.Metrics().WAL.BytesIn }
		before := written()
		time.Sleep(time.Hour)
		if n := written() - before; n > 0 {
			t.Errorf("%d bytes were written in an hour at rest", n)
		}
		if n := s.marks.Len(); n != 1 {
			t.Errorf("%d marks at rest", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRevisionAtOverRuns checks that RevisionAt returns revisions of earlier runs. After a kill, these are
// the revisions up to the last mark on disk.
func TestRevisionAtOverRuns(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%t", killed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashableMem()
				s := open(t, Config{Dir: "d", FS: disk, Retention: -1})
				began := time.Now()
				time.Sleep(time.Second)
				newest := map[time.Time]kv.Revision{} // the newest revision at each time
				for i := range 60 {
					newest[time.Now()] = put(t, s, "k", fmt.Sprint(i))
					time.Sleep(10 * time.Second)
				}
				if killed {
					disk = disk.CrashClone(vfs.CrashCloneCfg{})
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				s = open(t, Config{Dir: "d", FS: disk, Retention: -1})
				for at, rev := range newest {
					got, err := s.RevisionAt(t.Context(), at)
					if at.Before(began.Add(time.Minute)) && errors.Is(err, kv.ErrCompacted) {
						continue
					}
					// Marks are made once per minute, at ticks of ten seconds, so up to eight commits may be
					// missing.
					if err != nil || got > rev || got < rev-8 {
						t.Errorf("at %s: revision %d, %v; want about %d", at.Sub(began), got, err, rev)
					}
				}
				if _, err := s.RevisionAt(t.Context(), began.Add(-time.Second)); !errors.Is(err, kv.ErrCompacted) {
					t.Errorf("before the creation of the store: %v", err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestTornMark checks that invalid marks are ignored.
func TestTornMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Retention: -1})
	rev := put(t, s, "a", "1")
	b := s.engine.db.NewBatch()
	_ = b.Set(markKey(rev), []byte("torn"), nil)
	_ = b.Set(append(markKey(rev), 'x'), nil, nil)
	_ = b.Set(markKey(rev+9), make([]byte, 16), nil)
	if err := s.engine.db.Apply(b, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	killedAt := killed(t, s) // Close would write another mark
	log := &lines{}
	s = open(t, Config{Dir: killedAt, Retention: -1, Logger: log.logger()})
	if !log.has("an invalid time mark is ignored") {
		t.Error("the invalid mark was not logged")
	}
	before := time.Now()
	next := put(t, s, "a", "2")
	if got, err := s.RevisionAt(t.Context(), before); err == nil && got > rev {
		t.Errorf("revision %d at a time before revision %d", got, next)
	}
	checkHistory(t, s)
}

// TestRestoredMarks checks that a restored store, which continues at a later revision, has no marks
// for revisions before the restore.
func TestRestoredMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Config{InMemory: true, Retention: -1})
		put(t, s, "a", "1")
		time.Sleep(10 * time.Minute)
		past := time.Now().Add(-5 * time.Minute)
		if _, err := s.RevisionAt(t.Context(), past); err != nil {
			t.Fatal(err)
		}
		disk := vfs.NewMem()
		restoreInto(t, s, disk)
		restored := open(t, Config{Dir: "d", FS: disk, Retention: 5 * time.Minute})
		if rev, err := restored.RevisionAt(t.Context(), past); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("the restored store has revision %d for a time before it was restored: %v", rev, err)
		}
		time.Sleep(time.Second)
		first := kv.Revision(restored.published.Load())
		now := time.Now()
		time.Sleep(time.Second)
		put(t, restored, "a", "2")
		if rev, err := restored.RevisionAt(t.Context(), now); err != nil || rev != first {
			t.Errorf("the restored store returns revision %d, %v, want %d", rev, err, first)
		}
		time.Sleep(6 * time.Minute)
		if n := span(restored); n != 0 {
			t.Errorf("%d commits are retained for longer than the retention", n)
		}
		for _, s := range []*Store{s, restored} {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// restoreInto restores a snapshot of a store into the directory d of a disk.
func restoreInto(t *testing.T, s *Store, disk vfs.FS) {
	t.Helper()
	var buf bytes.Buffer
	if _, err := s.Snapshot(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	if err := restore(&buf, Config{Dir: "d", FS: disk}); err != nil {
		t.Fatal(err)
	}
}

// TestHoldExpires checks that a hold that is not released retains history for one hour.
func TestHoldExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &lines{}
		s := open(t, Config{InMemory: true, Retention: time.Minute, Logger: log.logger()})
		first := put(t, s, "a", "1")
		held, _, err := s.Hold(t.Context(), 0)
		if err != nil || held != first {
			t.Fatalf("held %d, %v", held, err)
		}
		put(t, s, "a", "2")
		time.Sleep(kv.MaxHold - time.Second)
		if e, _, err := s.Get(t.Context(), "a", held); err != nil || string(e.Value) != "1" {
			t.Errorf("read at a held revision: %v, %v", e, err)
		}
		time.Sleep(time.Minute)
		if _, _, err := s.Get(t.Context(), "a", held); !errors.Is(err, kv.ErrCompacted) {
			t.Errorf("read after the end of the hold: %v", err)
		}
		if !log.has("held for too long") {
			t.Error("the end of the hold was not logged")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRetentionIdle checks that history also ages in runs that make no commit and are killed.
func TestRetentionIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		for i := range 8 {
			s := open(t, Config{Dir: "d", FS: disk, Retention: time.Minute})
			if i == 0 {
				put(t, s, "a", "1")
				put(t, s, "a", "2")
			}
			time.Sleep(20 * time.Second)
			if n := span(s); n > 0 && i > 5 {
				t.Errorf("history of %d commits after %d idle runs", n, i)
			}
			disk = disk.CrashClone(vfs.CrashCloneCfg{})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
