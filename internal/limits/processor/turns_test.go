package processor

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// one returns a single turn of each kind.
func one() *Turns { return New(Config{Processors: func() int { return 1 }, PerProcessor: 1}) }

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

func (s *Turns) waits(kind Kind, n int64) func() bool {
	return func() bool { return s.queues[kind].waiting.Load() == n }
}

// checkHeld checks how many turns are held at some time.
func (s *Turns) checkHeld(t *testing.T, want int64, when string) {
	t.Helper()
	if n := s.held.Load(); n != want {
		t.Errorf("%d turns are held %s", n, when)
	}
}

// TestOrder checks that turns are granted in the order of requests, after those that resume. A
// long-running holder is skipped, so the test checks the order in the queue.
func TestOrder(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	q := &turns.queues[Change]
	var order []*Turn
	all := make([]Turn, 6)
	q.mu.Lock()
	for i := range all {
		all[i].queue = q
		if q.watched = true; i == 0 {
			q.giveLocked(&all[i])
			continue
		}
		q.waitLocked(&all[i], i == 4)
	}
	q.mu.Unlock()
	for range all {
		q.mu.Lock()
		holder := q.held[0]
		q.mu.Unlock()
		order = append(order, holder)
		holder.End()
	}
	want := []*Turn{&all[0], &all[4], &all[1], &all[2], &all[3], &all[5]}
	if !slices.Equal(order, want) {
		t.Errorf("order of turns: %v, want %v", order, want)
	}
	turns.checkHeld(t, 0, "at the end")
}

// TestUsers checks that a user with many waiting turns delays others by one turn each.
func TestUsers(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	q := &turns.queues[Change]
	waits := func(users ...string) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.watched = true
		for _, user := range users {
			q.waitLocked(&Turn{queue: q, user: user}, false)
		}
	}
	holder := &Turn{queue: q}
	q.mu.Lock()
	q.giveLocked(holder)
	q.mu.Unlock()
	waits("a", "a", "a", "a", "b", "b", "c")
	var order []string
	for range 9 {
		holder.End()
		q.mu.Lock()
		holder = q.held[0]
		q.mu.Unlock()
		if order = append(order, holder.user); len(order) == 4 {
			waits("d", "b")
		}
	}
	holder.End()
	if want := []string{"a", "b", "c", "a", "b", "a", "d", "b", "a"}; !slices.Equal(order, want) {
		t.Errorf("turns of %v, want %v", order, want)
	}
	if len(q.starting.users)+len(q.starting.of) > 0 {
		t.Error("something is kept of those who waited")
	}
	turns.checkHeld(t, 0, "at the end")
}

// TestLimits: there are some turns of each kind for each processor.
func TestLimits(t *testing.T) {
	t.Parallel()
	for config, want := range map[[2]int]int{{1, 0}: DefaultPerProcessor, {2, 0}: 2 * DefaultPerProcessor, {8, 1}: 8} {
		turns := New(Config{Processors: func() int { return config[0] }, PerProcessor: config[1]})
		for kind := range turns.queues {
			if got := turns.queues[kind].limit(); got != want {
				t.Errorf("%d processors: %d turns of kind %d, want %d", config[0], got, kind, want)
			}
		}
	}
}

// TestForgotten checks that a turn that is not released delays others only briefly, and that a late
// release is harmless.
func TestForgotten(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	var lost, other Turn
	turns.Begin(&lost, Bulk, "")
	turns.Begin(&other, Bulk, "") // returns
	lost.End()
	other.End()
	turns.checkHeld(t, 0, "at the end")
}

// TestPause checks that a paused request holds no turn, whichever of its goroutines waits, and has
// it again afterwards.
func TestPause(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	var turn Turn
	if turn.Pause() != nil {
		t.Error("a turn that was never begun was paused")
	}
	turns.Begin(&turn, Change, "")
	paused := turn.Pause()
	if paused != &turn || turn.Pause() != nil {
		t.Error("a turn is given back once")
	}
	turns.checkHeld(t, 0, "in a pause")
	paused.Resume()
	turns.checkHeld(t, 1, "after a pause")
	turn.End()
	turn.End()
	(*Turn)(nil).Pause().Resume()
	(*Turn)(nil).GiveWay()
	(*Turns)(nil).Begin(&turn, Bulk, "")
}

// TestPanic checks that a panic releases the turn, also during a pause.
func TestPanic(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	var turn Turn
	func() {
		defer func() { _ = recover() }()
		defer turn.End()
		turns.Begin(&turn, Change, "")
		defer turn.Pause().Resume()
		panic("as handlers do")
	}()
	turns.checkHeld(t, 0, "after a panic")
}

// TestGiveWay checks that long work yields to others.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	var busy, other Turn
	turns.Begin(&busy, Bulk, "")
	got := make(chan struct{})
	go func() { // ends with the test
		turns.Begin(&other, Bulk, "")
		close(got)
		other.End()
	}()
	for {
		busy.GiveWay()
		select {
		case <-got:
			busy.End()
			eventually(t, "no turn is held", func() bool { return turns.held.Load() == 0 })
			return
		default:
		}
	}
}

// TestCrowd checks that the callback is called when requests start to wait, and when none waits any
// more.
func TestCrowd(t *testing.T) {
	t.Parallel()
	told := make(chan bool, 100)
	turns := New(Config{Processors: func() int { return 1 }, PerProcessor: 1, OnCrowd: func(waiting bool) { told <- waiting }})
	defer turns.Close()
	var a, b Turn
	turns.Begin(&a, Change, "")
	var done sync.WaitGroup
	done.Go(func() { turns.Begin(&b, Change, ""); b.End() })
	if !<-told {
		t.Error("the end of waiting was told before its beginning")
	}
	a.End()
	done.Wait()
	if <-told {
		t.Error("waiting was told of twice")
	}
}

// TestMany checks that all of many concurrent turns with pauses and yields complete.
func TestMany(t *testing.T) {
	t.Parallel()
	turns := New(Config{Processors: func() int { return 2 }, PerProcessor: 1})
	defer turns.Close()
	var done sync.WaitGroup
	for i := range 64 {
		done.Go(func() {
			var turn Turn
			for n := range 200 {
				turns.Begin(&turn, Kind(i%2), "")
				turn.GiveWay()
				if n%3 == 0 {
					turn.Pause().Resume()
				}
				turn.End()
			}
		})
	}
	done.Wait()
	turns.checkHeld(t, 0, "at the end")
	eventually(t, "nobody waits", turns.waits(Bulk, 0))
}

// TestShared: the goroutines of one request pause and resume one turn.
func TestShared(t *testing.T) {
	t.Parallel()
	turns := one()
	defer turns.Close()
	var turn Turn
	turns.Begin(&turn, Change, "")
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 200 {
				turn.Pause().Resume()
			}
		})
	}
	done.Wait()
	turn.End()
	turns.checkHeld(t, 0, "at the end")
}

// TestClosed: turns go on without looks at the network once these have ended.
func TestClosed(t *testing.T) {
	t.Parallel()
	turns := one()
	var turn Turn
	turns.Begin(&turn, Bulk, "")
	turn.End()
	if err := turns.Close(); err != nil {
		t.Fatal(err)
	}
	turns.Begin(&turn, Bulk, "")
	turn.End()
	if err := turns.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
