package filters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineContext compares the behavior of deadlineContext with contexts of package context.
func TestDeadlineContext(t *testing.T) {
	t.Parallel()
	reason := errors.New("gone")
	// Here a cause is found that the parent has got after the end.
	const overFirst, lateFirst = "is over, then ends", "runs out of time, then ends also"
	type under struct {
		context.Context
		end    func() // as when its request is over
		parent context.CancelCauseFunc
	}
	for name, act := range map[string]func(u under){
		"lasts":                         func(under) {},
		"is over":                       func(u under) { u.end() },
		"runs out of time":              func(under) { time.Sleep(2 * time.Second) },
		"ends with its parent":          func(u under) { u.parent(reason) },
		overFirst:                       func(u under) { u.end(); u.parent(reason); time.Sleep(2 * time.Second) },
		"ends, then is over":            func(u under) { u.parent(reason); u.end() },
		"runs out of time, and is over": func(u under) { time.Sleep(2 * time.Second); u.end() },
		"ends, and its time runs out":   func(u under) { u.parent(nil); time.Sleep(2 * time.Second) },
		lateFirst:                       func(u under) { time.Sleep(2 * time.Second); u.parent(reason) },
	} {
		for _, early := range []bool{false, true} { // whether callers wait before the context ends
			told := func(with func(parent context.Context) (context.Context, func())) (told []string) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					ctx, end := with(parent)
					defer end()
					say := func(s string, args ...any) { told = append(told, fmt.Sprintf(s, args...)) }
					var below context.Context
					var stop func() bool
					ran := make(chan bool, 3)
					endBelow := context.CancelFunc(func() {})
					defer func() { endBelow() }()
					wait := func() {
						below, endBelow = context.WithTimeout(ctx, time.Hour)
						context.AfterFunc(ctx, func() { ran <- true })
						stop = context.AfterFunc(ctx, func() { ran <- false })
					}
					if early {
						wait()
						say("stopped %t, again %t", stop(), stop())
					}
					act(under{ctx, end, cancel})
					if !early {
						wait()
					}
					synctest.Wait()
					deadline, ok := ctx.Deadline()
					say("%v %t, %v, below %v, ran %d", deadline, ok, ctx.Err(), below.Err(), len(ran))
					if name != overFirst && name != lateFirst {
						say("%v, below %v", context.Cause(ctx), context.Cause(below))
					}
					select {
					case <-ctx.Done():
						say("done")
					default:
					}
				})
				return told
			}
			var q deadlineQueue
			have := told(func(parent context.Context) (context.Context, func()) {
				ctx := &deadlineContext{Context: parent, at: time.Now().Add(time.Second), expired: func() {}}
				q.add(ctx)
				return ctx, func() { q.remove(ctx); ctx.end(context.Canceled) }
			})
			want := told(func(parent context.Context) (context.Context, func()) {
				return context.WithDeadline(parent, time.Now().Add(time.Second))
			})
			if !slices.Equal(have, want) {
				t.Errorf("one that %s, with somebody waiting before that: %t\nhave %q\nwant %q", name, early, have, want)
			}
		}
	}
}

// TestDeadlineQueue adds and removes requests with different deadlines.
func TestDeadlineQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q deadlineQueue
		start := time.Now()
		made := make([]*deadlineContext, 200)
		ended := make([]time.Duration, len(made))
		for i := range made {
			given := time.Minute
			if i%7 == 0 {
				given = time.Duration(i) * time.Second / 10
			}
			ctx := &deadlineContext{Context: t.Context(), at: time.Now().Add(given), expired: func() { ended[i] = time.Since(start) }}
			made[i] = ctx
			q.add(ctx)
			time.Sleep(time.Second)
			if i%3 == 0 {
				q.remove(made[i/2])
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for i, ctx := range made {
			at := ctx.at.Sub(start)
			removed := ended[i] == 0 && i <= len(made)/2
			if !removed && (ended[i] != at || ctx.Err() != context.DeadlineExceeded) {
				t.Errorf("context %d ended at %v, %v, want %v", i, ended[i], ctx.Err(), at)
			}
			q.remove(ctx)
		}
		if q.waiting.Len() > 0 || q.set {
			t.Error("the queue is not empty")
		}
	})
}

// TestDeadlineQueueIsShort: a request of little time after one of much that is over.
func TestDeadlineQueueIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q deadlineQueue
		start := time.Now()
		for _, given := range []time.Duration{time.Minute, time.Second, 2 * time.Second, time.Millisecond} {
			var ended time.Duration
			ctx := &deadlineContext{Context: t.Context(), at: time.Now().Add(given), expired: func() { ended = time.Since(start) }}
			q.add(ctx)
			if given == time.Minute {
				q.remove(ctx)
				continue
			}
			want := time.Since(start) + given
			<-ctx.Done()
			synctest.Wait()
			if ended != want {
				t.Errorf("one of %v ended at %v, want %v", given, ended, want)
			}
			q.remove(ctx)
		}
	})
}

// BenchmarkDeadlineContext measures a request for which Done and Err are not called.
func BenchmarkDeadlineContext(b *testing.B) {
	b.Run("ours", func(b *testing.B) {
		var q deadlineQueue
		b.ReportAllocs()
		for b.Loop() {
			ctx := &deadlineContext{Context: b.Context(), at: time.Now().Add(time.Minute), expired: func() {}}
			q.add(ctx)
			q.remove(ctx)
			ctx.end(context.Canceled)
		}
	})
	b.Run("context", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithDeadline(b.Context(), time.Now().Add(time.Minute))
			stop := context.AfterFunc(ctx, func() {})
			stop()
			cancel()
		}
	})
}
