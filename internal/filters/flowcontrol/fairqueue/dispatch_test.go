package fairqueue

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLastDispatch checks that the ranges of a Dispatch include all queues with waiting requests.
func TestLastDispatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, flow := newSet(2, 1, 1), &Flow{}
		if _, has := s.LastDispatch(); has {
			t.Error("LastDispatch returned a dispatch before the first request")
		}
		start := func(hash uint64, want Outcome) *Request {
			t.Helper()
			r := &Request{Flow: flow, Hash: hash, Work: Work{InitialSeats: 1}}
			if got := s.Start(time.Now(), r); got != want {
				t.Fatalf("outcome %d, want %d", got, want)
			}
			return r
		}
		first := start(0, Executing)
		if last, has := s.LastDispatch(); !has || last != (Dispatch{}) {
			t.Errorf("the first dispatch: %+v", last)
		}
		second, third := start(0, Waiting), start(1, Waiting)
		if second.queue == third.queue {
			t.Fatal("the requests wait in one queue")
		}
		time.Sleep(time.Second)
		s.Finish(time.Now(), first)
		want := Dispatch{Progress: 0.5, Start: 0, Next: Span{0, 1}, Discounted: Span{0, 1}}
		if last, _ := s.LastDispatch(); last != want {
			t.Errorf("the second dispatch: %+v, want %+v", last, want)
		}
		s.Finish(time.Now(), third)
		s.Finish(time.Now(), second)
		checkEmpty(t, s, flow)
	})
}

// TestGauge checks that each nanosecond is counted with the ratio that the gauge had at that time.
func TestGauge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGauge([]float64{0, 0.5, 1})
		g.SetDenominator(4)
		time.Sleep(time.Microsecond)
		g.Add(time.Now(), 2)
		time.Sleep(2 * time.Microsecond)
		g.Add(time.Now().Add(-time.Microsecond), 2) // a time before the current time of the gauge
		time.Sleep(3 * time.Microsecond)
		g.Add(time.Now(), -4)
		got := g.Measured()
		if got.Count != 6000 || got.Buckets[0] != 1000 || got.Buckets[0.5] != 2000 || got.Buckets[1] != 6000 || got.Sum != 500+4000 {
			t.Errorf("measured values of the gauge: %+v", got)
		}
	})
}
