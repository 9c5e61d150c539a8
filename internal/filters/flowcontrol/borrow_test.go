package flowcontrol

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

// bootstrapLevels returns the default levels of a cluster, except the mandatory levels.
func bootstrapLevels() []any {
	return []any{
		limited("system", 30, 33, queuing(64, 6)), limited("node-high", 40, 25, queuing(64, 6)), limited("leader-election", 10, 0, queuing(16, 4)),
		limited("workload-high", 40, 50, queuing(128, 6)), limited("workload-low", 100, 90, queuing(128, 6)), limited("global-default", 20, 50, queuing(128, 6)),
	}
}

// occupy starts requests with one seat each at a level, and returns a function that ends them.
func occupy(t *testing.T, c *Control, name string, requests int) (end func()) {
	t.Helper()
	c.configured()
	l, flow := c.activeLevels[name], &fairqueue.Flow{}
	var all []*fairqueue.Request
	for i := range requests {
		r := &fairqueue.Request{Flow: flow, Hash: uint64(i), Work: fairqueue.Work{InitialSeats: 1}}
		if l.set.Start(time.Now(), r) != fairqueue.Rejected {
			all = append(all, r)
		}
	}
	return func() {
		for _, r := range all {
			if l.set.Cancel(r, fairqueue.Cancelled) == fairqueue.Executing {
				l.set.Finish(time.Now(), r)
			}
		}
	}
}

// TestBorrowing compares the distribution of 600 seats among the default levels with
// kube-apiserver's, for the same demands.
func TestBorrowing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		demand map[string]int
		want   map[string]int
	}{
		{"no demand", nil, map[string]int{"catch-all": 30, "workload-low": 56, "workload-high": 114, "node-high": 170, "exempt": 0}},
		{"one level with a high demand", map[string]int{"workload-low": 700}, map[string]int{"workload-low": 368, "workload-high": 49, "node-high": 73, "system": 50, "catch-all": 13, "leader-election": 25, "global-default": 24}},
		{"two levels with a high demand", map[string]int{"workload-low": 700, "workload-high": 700}, map[string]int{"workload-low": 245, "workload-high": 172, "node-high": 73}},
		{"exempt requests use some seats", map[string]int{"exempt": 250, "workload-low": 700}, map[string]int{"exempt": 250, "workload-low": 118, "workload-high": 49}},
		{"exempt requests use more than all seats", map[string]int{"exempt": 900, "workload-low": 700}, map[string]int{"exempt": 900, "workload-low": 24, "workload-high": 49}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newControl(t, 600, bootstrapLevels()...)
				for name, requests := range tt.demand {
					defer occupy(t, c, name, requests)()
				}
				c.configured()
				// An increase has its full effect after a complete period.
				for range 2 {
					time.Sleep(adjustmentPeriod)
					c.adjustIfDue(time.Now())
				}
				for name, want := range tt.want {
					if got := c.activeLevels[name].current; got != want {
						t.Errorf("%s has %d seats, want %d", name, got, want)
					}
				}
			})
		})
	}
}

// TestBorrowingEnds checks that the smoothed demand of a level decreases gradually when the demand ends, even
// if there are no adjustments for a long time.
func TestBorrowingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, 600, bootstrapLevels()...)
		end := occupy(t, c, "workload-low", 700)
		time.Sleep(adjustmentPeriod)
		c.adjustIfDue(time.Now())
		end()
		time.Sleep(adjustmentPeriod)
		c.adjustIfDue(time.Now()) // updates the smoothed demand
		high := c.activeLevels["workload-low"].demand.smoothed
		time.Sleep(5 * time.Minute)
		c.adjustIfDue(time.Now())
		half := c.activeLevels["workload-low"].demand.smoothed
		if math.Abs(half/high-0.5) > 0.02 {
			t.Errorf("after five minutes %.1f are left of %.1f", half, high)
		}
		time.Sleep(24 * time.Hour)
		c.adjustIfDue(time.Now())
		if left := c.activeLevels["workload-low"].demand.smoothed; left > 0.001 {
			t.Errorf("after a day %.1f are left", left)
		}
	})
}

// TestWaitingBorrows checks that waiting requests receive borrowed seats although no other request arrives.
func TestWaitingBorrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, 10, limited("a", 10, 100, queuing(1, 1)), limited("b", 90, 100, queuing(1, 1)), flowSchema("a", "a", 10, user("jane")))
		requests := make(chan *Request)
		for range 20 {
			go func() { requests <- take(c, requestOf(t, "jane", "GET", "/version")) }()
		}
		synctest.Wait()
		time.Sleep(14 * time.Second) // each request waits for up to 15 seconds
		synctest.Wait()
		executing := c.activeLevels["a"].set.Dump(false).Executing
		if executing < 8 {
			t.Errorf("%d requests are executing after a period; want at least 8 with 10 seats", executing)
		}
		for range 20 {
			(<-requests).End()
		}
	})
}

// TestBounds checks the limits for lending and borrowing.
func TestBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bounded := limited("bounded", 45, 20, queuing(4, 1))
		percent := int32(10)
		bounded.Spec.Limited.BorrowingLimitPercent = &percent
		c := newControl(t, 100, bounded, limited("other", 50, 100, queuing(4, 1)))
		l := func() *level { c.configured(); return c.activeLevels["bounded"] }
		if l().nominal != 45 || l().min != 36 || l().max != 50 {
			t.Errorf("%d, from %d to %d", l().nominal, l().min, l().max)
		}
		end := occupy(t, c, "bounded", 100)
		time.Sleep(adjustmentPeriod)
		c.adjustIfDue(time.Now())
		if l().current != 50 {
			t.Errorf("current limit %d, want 50", l().current)
		}
		end()
		defer occupy(t, c, "other", 200)()
		for range 500 {
			time.Sleep(adjustmentPeriod)
			c.adjustIfDue(time.Now())
		}
		if l().current != 36 {
			t.Errorf("current limit %d, want 36", l().current)
		}
	})
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		sum   float64
		wants []seatBounds
		given []float64
	}{
		{"in proportion", 30, []seatBounds{{0, 100, 10}, {0, 100, 5}}, []float64{20, 10}},
		{"a lower bound", 30, []seatBounds{{0, 100, 10}, {15, 100, 5}}, []float64{15, 15}},
		{"an upper bound", 30, []seatBounds{{0, 12, 10}, {0, 100, 5}}, []float64{12, 18}},
		{"both", 40, []seatBounds{{0, 12, 10}, {25, 100, 5}, {0, 100, 1}}, []float64{12, 25, 3}},
		{"a level without demand receives the remaining seats", 30, []seatBounds{{0, 5, 10}, {0, 100, 0}}, []float64{5, 25}},
		{"more than all upper bounds", 100, []seatBounds{{0, 12, 10}, {0, 20, 5}}, []float64{12, 20}},
		{"less than all lower bounds", 1, []seatBounds{{5, 12, 10}, {6, 20, 6}}, []float64{5, 6}},
		{"no seats", 0, []seatBounds{{0, 12, 10}}, []float64{0}},
		{"no levels", 10, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			given, _ := allocate(tt.sum, tt.wants)
			if len(given) != len(tt.given) {
				t.Fatalf("allocated seats %v, want %v", given, tt.given)
			}
			for i := range given {
				if math.Abs(given[i]-tt.given[i]) > 1e-6 {
					t.Errorf("%v, want %v", given, tt.given)
				}
			}
		})
	}
}

// TestMaxSeats checks the maximum number of seats for one request at each level.
func TestMaxSeats(t *testing.T) {
	t.Parallel()
	c := newControl(t, 600, bootstrapLevels()...)
	c.configured()
	for name, want := range map[string]int{"workload-high": 15, "workload-low": 37, "global-default": 8, "leader-election": 4, "catch-all": 0, "exempt": 0} {
		if got := c.activeLevels[name].maxSeats(); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestInvalidLevels checks that invalid stored objects are ignored.
func TestInvalidLevels(t *testing.T) {
	t.Parallel()
	other := exempt()
	other.Name = "other"
	noQueues := limited("no-queues", 1, 0, nil)
	noQueues.Spec.Limited.LimitResponse.Type = flowcontrolv1.LimitResponseTypeQueue
	c := newControl(t, 10, other, noQueues, flowSchema("a", "other", 5, user("jane")), flowSchema("b", "no-queues", 5, user("jane")))
	if n := len(c.configured().flows); n != 2 || c.activeLevels["other"] != nil || c.activeLevels["no-queues"] != nil {
		t.Errorf("%d flows, %v", n, c.activeLevels)
	}
}
