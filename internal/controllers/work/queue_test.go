package work_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controllers/work"
)

func newQueue(ctx context.Context, workers int, do func(context.Context, string) error) *work.Queue[string] {
	return work.New(ctx, work.Config[string]{Name: "test", Workers: workers, Sync: do, Logger: slog.New(slog.DiscardHandler)})
}

// TestOnceAtATime checks that a key is processed by only one goroutine at a time, and that it is processed
// again if it was added in the meantime.
func TestOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most, times atomic.Int32
		q := newQueue(t.Context(), 8, func(context.Context, string) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			times.Add(1)
			return nil
		})
		for range 5 {
			q.Add("a")
		}
		synctest.Wait()
		for range 5 {
			q.Add("a")
		}
		time.Sleep(time.Minute)
		if times.Load() != 2 || most.Load() != 1 {
			t.Errorf("done %d times, %d at a time", times.Load(), most.Load())
		}
	})
}

// TestRetries checks that a key is retried with increasing delays after an error or a panic, and that this does
// not delay other keys.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := map[string][]time.Duration{}
		begin := time.Now()
		q := newQueue(t.Context(), 1, func(_ context.Context, key string) error {
			mu.Lock()
			done[key] = append(done[key], time.Since(begin))
			n := len(done[key])
			mu.Unlock()
			switch {
			case key == "panics" && n < 3:
				panic("oops")
			case key == "fails" && n < 6:
				return errors.New("not yet")
			case key == "later" && n < 2:
				return work.RequeueAfter(time.Hour)
			}
			return nil
		})
		for _, key := range []string{"panics", "fails", "later", "good"} {
			q.Add(key)
		}
		time.Sleep(2 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		for key, want := range map[string]int{"panics": 3, "fails": 6, "later": 2, "good": 1} {
			if len(done[key]) != want {
				t.Errorf("%s was done %d times, want %d", key, len(done[key]), want)
			}
		}
		if at := done["fails"]; at[1]-at[0] > 20*time.Millisecond || at[5]-at[4] < 100*time.Millisecond {
			t.Errorf("attempts at %v", at)
		}
		if done["later"][1] < time.Hour || done["good"][0] != 0 {
			t.Errorf("done at %v", done)
		}
	})
}

// TestFailuresBetweenPeriods checks that a key that is processed periodically is retried soon after a failure,
// regardless of the failures in earlier periods, and that it is not busy after the retry.
func TestFailuresBetweenPeriods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set work.Set
		var times atomic.Int32
		q := work.New(work.WithSet(t.Context(), &set), work.Config[string]{
			Name: "test", Workers: 1, Logger: slog.New(slog.DiscardHandler),
			Sync: func(context.Context, string) error {
				if times.Add(1)%2 == 1 {
					return errors.New("it fails in each period")
				}
				return work.RequeueAfter(time.Hour)
			},
		})
		q.Add("a")
		for period := range 30 {
			time.Sleep(time.Minute)
			if n := int(times.Load()); n != 2*period+2 {
				t.Fatalf("%d attempts in the first minute of period %d", n, period)
			}
			if busy, _, _ := set.Pending(); busy {
				t.Fatalf("the key is busy in period %d", period)
			}
			time.Sleep(time.Hour - time.Minute + time.Second)
		}
	})
}

// TestAddAfterFailure checks that AddAfter processes a failed key earlier than its retry, and that it does not
// replace another delay.
func TestAddAfterFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var times atomic.Int32
		err := errors.New("it fails")
		q := newQueue(t.Context(), 1, func(context.Context, string) error { times.Add(1); return err })
		q.Add("a")
		time.Sleep(time.Hour) // the delay between retries is now minutes
		q.Add("a")
		synctest.Wait()
		before := times.Load()
		err = nil
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Second)
		time.Sleep(2 * time.Second)
		if n := times.Load() - before; n != 1 {
			t.Errorf("%d attempts after the delay, want 1", n)
		}
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", time.Second)
		time.Sleep(2 * time.Second)
		if n := times.Load() - before; n != 1 {
			t.Errorf("the first delay was shortened")
		}
		time.Sleep(time.Hour)
		if n := times.Load() - before; n != 2 {
			t.Errorf("%d attempts after both delays, want 2", n)
		}
	})
}

// TestRequestedDelay checks the number of attempts in a minute and in an hour if the errors specify a delay.
func TestRequestedDelay(t *testing.T) {
	t.Parallel()
	serverTimeout := func(seconds int) error {
		return apierrors.NewServerTimeout(schema.GroupResource{Resource: "pods"}, "update", seconds)
	}
	for name, tt := range map[string]struct {
		err                      error
		least, most, leastInHour int32 // attempts in a minute and in an hour
	}{
		"no delay":    {serverTimeout(0), 5, 20, 15},
		"negative":    {serverTimeout(-1), 5, 20, 15},
		"ten seconds": {apierrors.NewTooManyRequests("later", 10), 6, 7, 360},
		"years":       {apierrors.NewTooManyRequests("later", math.MaxInt32), 1, 1, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				var times atomic.Int32
				q := newQueue(ctx, 1, func(context.Context, string) error {
					if times.Add(1) > 1000 {
						end() // otherwise, retries without a delay never end
					}
					return tt.err
				})
				q.Add("a")
				time.Sleep(time.Minute)
				if n := times.Load(); n < tt.least || n > tt.most {
					t.Errorf("%d attempts in a minute, want %d to %d", n, tt.least, tt.most)
				}
				time.Sleep(time.Hour - time.Minute)
				if n := times.Load(); n < tt.leastInHour {
					t.Errorf("%d attempts in an hour, want at least %d", n, tt.leastInHour)
				}
				end()
				q.Close()
			})
		})
	}
}

// TestEnd checks that no key is processed after the context of the queue has ended.
func TestEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var times atomic.Int32
		q := newQueue(ctx, 2, func(context.Context, string) error {
			times.Add(1)
			return errors.New("again")
		})
		q.Add("a")
		q.AddAfter("b", time.Minute)
		synctest.Wait()
		end()
		q.Close()
		before := times.Load()
		q.Add("c")
		time.Sleep(time.Hour)
		if times.Load() != before {
			t.Errorf("done %d times after the end", times.Load()-before)
		}
	})
}

// TestSet checks the state that a set of queues reports.
func TestSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var set work.Set
		check := func(busy bool, due time.Duration, known bool) {
			t.Helper()
			synctest.Wait()
			gotBusy, gotDue, gotKnown := set.Pending()
			if gotBusy != busy || gotKnown != known || (due == 0) != gotDue.IsZero() || due > 0 && time.Until(gotDue) != due {
				t.Errorf("busy %v, due in %s, known %v; want %v, %s, %v", gotBusy, time.Until(gotDue), gotKnown, busy, due, known)
			}
		}
		check(false, 0, false)
		running := make(chan struct{})
		q := work.New(work.WithSet(t.Context(), &set), work.Config[string]{
			Name: "test", Workers: 1, Logger: slog.New(slog.DiscardHandler),
			Sync: func(_ context.Context, key string) error {
				switch key {
				case "running":
					<-running
				case "failing":
					return errors.New("it fails")
				case "hour":
					return work.RequeueAt(time.Now().Add(time.Hour))
				case "day":
					return work.RequeueAt(time.Now().Add(24 * time.Hour))
				case "periodic":
					return work.RequeueAfter(time.Minute)
				}
				return nil
			},
		})
		defer q.Close()
		check(false, 0, true)
		q.Add("running")
		check(true, 0, true)
		close(running)
		check(false, 0, true)
		q.Add("periodic")
		check(false, 0, true)
		q.Add("day")
		check(false, 24*time.Hour, true)
		q.Add("hour")
		check(false, time.Hour, true)
		q.Add("failing")
		check(true, time.Hour, true)
		time.Sleep(10 * time.Minute) // a permanent failure
		check(false, 50*time.Minute, true)
		q.Close()
		check(false, 0, false)
	})
}
