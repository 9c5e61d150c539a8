package fairqueue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newSet returns a Set with the given numbers of queues and seats. Each queue can contain 50 requests.
func newSet(queues, hand, seats int) *Set {
	s := New(&Bounds{Seats: []float64{0, 0.5, 1}, Requests: []float64{0, 0.5, 1}, Demand: []float64{0.5, 1, 2}})
	s.Configure(Config{Queues: queues, HandSize: hand, QueueLengthLimit: 50})
	s.SetLimits(Limits{Seats: seats, Denominator: seats})
	return s
}

// client describes concurrent requests of a flow. Each caller sends a request when its previous request is
// complete.
type client struct {
	hash     uint64
	callers  int
	work     Work
	duration time.Duration
	pause    time.Duration // between requests
}

// used is the measured usage of a client.
type used struct {
	seatTime       time.Duration
	done, rejected int
}

// run sends the clients' requests for a period, and returns the usage of each client. It checks
// that the number of seats in use never exceeds seats.
func run(t *testing.T, s *Set, seats int, length time.Duration, clients []client) []used {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	results := make([]used, len(clients))
	var mu sync.Mutex
	inUse, most := 0, 0
	note := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		inUse += n
		most = max(most, inUse)
	}
	var callers sync.WaitGroup
	flow := &Flow{}
	for i, c := range clients {
		for range c.callers {
			callers.Go(func() {
				for ctx.Err() == nil {
					r := &Request{Flow: flow, Hash: c.hash, Work: c.work}
					if !pass(ctx, s, r) {
						if ctx.Err() != nil {
							return
						}
						mu.Lock()
						results[i].rejected++
						mu.Unlock()
						time.Sleep(50 * time.Millisecond)
						continue
					}
					note(c.work.InitialSeats)
					time.Sleep(c.duration)
					note(-c.work.InitialSeats)
					s.Finish(time.Now(), r)
					mu.Lock()
					results[i].done++
					results[i].seatTime += time.Duration(c.work.InitialSeats) * c.duration
					mu.Unlock()
					time.Sleep(c.pause)
				}
			})
		}
	}
	callers.Wait()
	if most > seats {
		t.Errorf("%d seats of %d were in use", most, seats)
	}
	checkEmpty(t, s, flow)
	return results
}

// pass starts a request and waits for it. It reports whether the request has received its seats.
func pass(ctx context.Context, s *Set, r *Request) bool {
	outcome := s.Start(time.Now(), r)
	for outcome == Waiting {
		outcome = s.Wait(ctx, r, time.Now().Add(time.Minute))
	}
	return outcome == Executing
}

// checkEmpty fails the test unless all seats are free and all queues are empty.
func checkEmpty(t *testing.T, s *Set, flow *Flow) {
	t.Helper()
	time.Sleep(time.Hour) // with synctest's clock; no seats are lingering after this time
	d := s.Dump(true)
	counts := s.FlowCounts(flow)
	if d.Waiting+d.Executing+d.SeatsInUse+d.SeatsWaiting+len(d.Requests)+d.ActiveQueues != 0 || !s.Idle() {
		t.Errorf("the set still has requests or occupied seats: %+v", d)
	}
	if counts.ExecutingRequests+counts.ExecutingSeats+counts.WaitingRequests+counts.WaitingSeats != 0 {
		t.Errorf("the flow still has requests or occupied seats: %+v", counts)
	}
	if s.active != 0 || s.progress != 0 {
		t.Errorf("%d queues are active, at %v", s.active, s.progress)
	}
	for i, q := range d.Queues {
		if q.Waiting+q.Executing+q.SeatsInUse+q.InitialSeats+q.Seats != 0 || q.Work != 0 {
			t.Errorf("queue %d: %+v", i, q)
		}
	}
}

func share(results []used, i int) float64 {
	total := time.Duration(0)
	for _, u := range results {
		total += u.seatTime
	}
	return float64(results[i].seatTime) / float64(total)
}

// TestFairShares checks that flows with a demand above their share receive equal seat times, and that the
// demand of other flows is met.
func TestFairShares(t *testing.T) {
	t.Parallel()
	one := Work{InitialSeats: 1}
	// Hashes with different hands of one queue.
	a, b, c := uint64(1), uint64(2), uint64(3)
	tests := []struct {
		name    string
		clients []client
		want    []float64
	}{
		{"equals", []client{{a, 40, one, 100 * time.Millisecond, 0}, {b, 40, one, 100 * time.Millisecond, 0}}, []float64{0.5, 0.5}},
		{"many callers do not help", []client{{a, 45, one, 100 * time.Millisecond, 0}, {b, 15, one, 100 * time.Millisecond, 0}}, []float64{0.5, 0.5}},
		{"long requests do not help", []client{{a, 40, one, time.Second, 0}, {b, 40, one, 10 * time.Millisecond, 0}}, []float64{0.5, 0.5}},
		{"requests with many seats do not help", []client{{a, 40, Work{InitialSeats: 5}, 100 * time.Millisecond, 0}, {b, 40, one, 100 * time.Millisecond, 0}}, []float64{0.5, 0.5}},
		{"three", []client{{a, 40, one, 50 * time.Millisecond, 0}, {b, 40, Work{InitialSeats: 2}, 100 * time.Millisecond, 0}, {c, 40, one, 200 * time.Millisecond, 0}}, []float64{1. / 3, 1. / 3, 1. / 3}},
		// The second client has two callers that are idle half of the time, so it uses one of ten
		// seats on average.
		{"a flow with a low demand", []client{{a, 50, one, 100 * time.Millisecond, 0}, {b, 2, one, 100 * time.Millisecond, 100 * time.Millisecond}}, []float64{0.9, 0.1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				results := run(t, newSet(8, 1, 10), 10, 20*time.Second, tt.clients)
				for i, want := range tt.want {
					if got := share(results, i); got < want-0.05 || got > want+0.05 {
						t.Errorf("client %d has %.3f of the seats, want %.2f: %+v", i, got, want, results)
					}
				}
			})
		})
	}
}

// TestHostileFlow checks that requests of a flow that fills its queues are rejected, while no request of
// ninety-nine other flows is rejected.
func TestHostileFlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		clients := []client{{random.Uint64(), 400, Work{InitialSeats: 3}, 100 * time.Millisecond, 0}}
		for range 99 {
			clients = append(clients, client{random.Uint64(), 1, Work{InitialSeats: 1}, 10 * time.Millisecond, 90 * time.Millisecond})
		}
		results := run(t, newSet(64, 6, 20), 20, 5*time.Second, clients)
		if results[0].rejected == 0 {
			t.Error("no request of the hostile flow was rejected")
		}
		for i, u := range results[1:] {
			// Without the others, each would send 50 requests.
			if u.rejected > 0 || u.done < 25 {
				t.Errorf("flow %d: %+v", i+1, u)
			}
		}
	})
}

// TestRandomRequests checks that for random requests, cancellations and configurations, all seats
// are released and the sums match the requests.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { randomRequests(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func randomRequests(t *testing.T, random *rand.Rand) {
	s, flow := newSet(8, 3, 5), &Flow{}
	var requests sync.WaitGroup
	for range 400 {
		work := Work{InitialSeats: 1 + random.IntN(3)}
		if random.IntN(3) == 0 {
			work.FinalSeats, work.AdditionalLatency = random.IntN(8), time.Duration(random.IntN(50))*time.Millisecond
		}
		duration, timeout, hash := time.Duration(random.IntN(30))*time.Millisecond, time.Duration(1+random.IntN(100))*time.Millisecond, random.Uint64()
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			r := &Request{Flow: flow, Hash: hash, Work: work}
			if pass(ctx, s, r) {
				time.Sleep(duration)
				s.Finish(time.Now(), r)
			}
		})
		switch random.IntN(40) {
		case 0:
			s.Configure(Config{Queues: random.IntN(12), HandSize: 1 + random.IntN(4), QueueLengthLimit: 1 + random.IntN(9)})
		case 1:
			s.SetLimits(Limits{Seats: random.IntN(12), Denominator: 1})
		}
		time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
		checkSums(t, s)
	}
	s.SetLimits(Limits{Seats: 1})
	requests.Wait()
	checkEmpty(t, s, flow)
}

// checkSums fails the test if a counter does not match the requests.
func checkSums(t *testing.T, s *Set) {
	t.Helper()
	s.lock(time.Now())
	defer s.mu.Unlock()
	s.dispatch() // like the timer, for seats that have just become free
	active, waiting, seatsWaiting, seatsInUse := 0, 0, 0, 0
	for _, q := range s.queues {
		if q == nil {
			continue
		}
		seats := 0
		for r := q.waiting.first; r != nil; r = r.next {
			seats += r.Work.Seats()
		}
		if q.active() {
			active++
		}
		if seats != q.seats {
			t.Errorf("%d seats of %d in a queue", q.seats, seats)
		}
		waiting, seatsWaiting = waiting+q.waiting.length, seatsWaiting+seats
	}
	for r := s.executing.first; r != nil; r = r.next {
		seatsInUse += r.Work.Seats()
	}
	for _, left := range s.lingering {
		seatsInUse += left.seats
	}
	if active != s.active || waiting != s.waiting || seatsWaiting != s.seatsWaiting || seatsInUse != s.seatsInUse {
		t.Errorf("%d %d %d %d, want %d %d %d %d", s.active, s.waiting, s.seatsWaiting, s.seatsInUse, active, waiting, seatsWaiting, seatsInUse)
	}
	if s.waiting > 0 && s.executing.length == 0 && len(s.lingering) == 0 && s.limits.Seats > 0 {
		t.Error("requests wait although all seats are free")
	}
}

// TestWithoutQueues checks that requests above the limit are rejected, unless the level is exempt.
func TestWithoutQueues(t *testing.T) {
	t.Parallel()
	s, flow := newSet(0, 0, 2), &Flow{}
	start := func(seats int) (Outcome, *Request) {
		r := &Request{Flow: flow, Work: Work{InitialSeats: seats}}
		outcome := s.Start(time.Now(), r)
		return outcome, r
	}
	_, wide := start(9) // more seats than the limit: fits only if no other request is executing
	if got, _ := start(1); got != Rejected {
		t.Errorf("while a request occupies all seats: %v", got)
	}
	s.Finish(time.Now(), wide)
	_, first := start(1)
	_, second := start(1)
	if got, _ := start(1); got != Rejected {
		t.Errorf("third request for two seats: %v", got)
	}
	s.Configure(Config{Exempt: true})
	_, third := start(5)
	for _, r := range []*Request{first, second, third} {
		if r.state != isExecuting {
			t.Errorf("request in state %d, want executing", r.state)
		}
		s.Finish(time.Now(), r)
	}
	if got := s.FlowCounts(flow); got.Dispatched != 4 || got.Rejected != [reasons]uint64{ConcurrencyLimit: 2} || !s.Idle() {
		t.Errorf("flow counts %+v, want 4 dispatched and 2 rejected requests and an idle set", got)
	}
}

// TestAdditionalLatency checks that the final seats of a request are released after its additional latency
// and immediately given to waiting requests.
func TestAdditionalLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, flow, start := newSet(1, 1, 2), &Flow{}, time.Now()
		first := &Request{Flow: flow, Work: Work{InitialSeats: 1, FinalSeats: 8, AdditionalLatency: 10 * time.Millisecond}}
		if !pass(t.Context(), s, first) {
			t.Fatal("rejected")
		}
		s.Finish(time.Now(), first)
		second := &Request{Flow: flow, Work: Work{InitialSeats: 1}}
		if !pass(t.Context(), s, second) {
			t.Fatal("rejected")
		}
		if waited := time.Since(start); waited != 10*time.Millisecond {
			t.Errorf("waited for %v", waited)
		}
		s.Finish(time.Now(), second)
		checkEmpty(t, s, flow)
	})
}

func TestLimitFinalSeats(t *testing.T) {
	t.Parallel()
	w := Work{InitialSeats: 1, FinalSeats: 8, AdditionalLatency: 10 * time.Millisecond}
	before := w.total()
	w.limitFinalSeats(2)
	if w.FinalSeats != 2 || w.AdditionalLatency != 40*time.Millisecond || w.total() != before {
		t.Errorf("work %+v, want 2 final seats for 40 ms", w)
	}
}

// TestDeal checks that cards are distinct, and that all hands are about equally likely.
func TestDeal(t *testing.T) {
	t.Parallel()
	const deck, size, rounds = 5, 3, 60_000
	random, seen := rand.New(rand.NewPCG(3, 4)), map[[size]int]int{}
	for range rounds {
		var hand [size]int
		deal(random.Uint64(), deck, hand[:])
		sorted := slices.Sorted(slices.Values(hand[:]))
		if len(slices.Compact(sorted)) != size || sorted[0] < 0 || slices.Max(hand[:]) >= deck {
			t.Fatalf("a hand is %v", hand)
		}
		seen[hand]++
	}
	if len(seen) != deck*(deck-1)*(deck-2) {
		t.Errorf("%d hands", len(seen))
	}
	each := rounds / len(seen)
	for _, n := range slices.Collect(maps.Values(seen)) {
		if n < each*8/10 || n > each*12/10 {
			t.Errorf("a hand was dealt %d times, want about %d", n, each)
		}
	}
}

// TestMeters checks that meters are time-weighted.
func TestMeters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, flow := newSet(1, 1, 2), &Flow{}
		time.Sleep(time.Second)
		r := &Request{Flow: flow, Work: Work{InitialSeats: 1}}
		_ = pass(t.Context(), s, r)
		time.Sleep(3 * time.Second)
		s.Finish(time.Now(), r)
		got := s.Measured().Seats
		if got.Count != 4e9 || got.Sum != 1.5e9 || !maps.Equal(got.Buckets, map[float64]uint64{0: 1e9, 0.5: 4e9, 1: 4e9}) {
			t.Errorf("measured seats %+v", got)
		}
		demand := s.TakeDemand()
		if demand.Average != 0.75 || demand.Max != 1 || demand.Duration != 4*time.Second || demand.Deviation < 0.43 || demand.Deviation > 0.44 {
			t.Errorf("demand %+v", demand)
		}
		if again := s.TakeDemand(); again != (Demand{}) {
			t.Errorf("taken again: %+v", again)
		}
	})
}

func BenchmarkUncontended(b *testing.B) {
	s, flow := newSet(128, 6, 100), &Flow{}
	b.ReportAllocs()
	for b.Loop() {
		r := Request{Flow: flow, Hash: 0x1234567890abcdef, Work: Work{InitialSeats: 1}}
		_ = s.Start(time.Now(), &r)
		s.Finish(time.Now(), &r)
	}
}
