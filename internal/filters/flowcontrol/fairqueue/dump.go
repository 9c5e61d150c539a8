package fairqueue

import "time"

// Dump is the state of a Set at a moment.
type Dump struct {
	Queues                        []QueueDump
	Requests                      []RequestDump // the waiting, then the executing requests of each queue, then requests without a queue
	Waiting, Executing            int
	SeatsInUse, SeatsWaiting      int
	Dispatched                    uint64
	Rejected, TimedOut, Cancelled uint64
	ActiveQueues                  int // in which requests wait
	Progress                      SeatSeconds
}

// QueueDump is the state of a queue.
type QueueDump struct {
	Waiting, Executing, SeatsInUse int
	NextDispatchR                  SeatSeconds
	InitialSeats, Seats            int // of the waiting
	Work                           SeatSeconds
}

// RequestDump is a request that waits or is executed.
type RequestDump struct {
	Queue, Position  int // T -1 without a queue
	Arrived, Started time.Time
	Work             Work
	About            any
}

// Dump returns the state, with the individual requests if requests is set.
func (s *Set) Dump(requests bool) Dump {
	s.lock(time.Now())
	defer s.mu.Unlock()
	d := Dump{
		Waiting: s.waiting, Executing: s.executing.length, SeatsInUse: s.seatsInUse, SeatsWaiting: s.seatsWaiting,
		Dispatched: s.dispatched, TimedOut: s.rejected[TimeOut], Cancelled: s.rejected[Cancelled], Progress: s.progress,
	}
	for _, n := range s.rejected {
		d.Rejected += n
	}
	for _, q := range s.queues {
		if q == nil {
			q = &queue{}
		}
		if q.waiting.length > 0 {
			d.ActiveQueues++
		}
		d.Queues = append(d.Queues, QueueDump{
			Waiting: q.waiting.length, Executing: q.executing, SeatsInUse: q.seatsInUse, NextDispatchR: q.nextDispatchR,
			InitialSeats: q.initialSeats, Seats: q.seats, Work: q.work,
		})
	}
	if requests {
		d.Requests = s.dumpRequests()
	}
	return d
}

func (s *Set) dumpRequests() []RequestDump {
	executing := map[*queue][]*Request{}
	for r := s.executing.first; r != nil; r = r.next {
		executing[r.queue] = append(executing[r.queue], r)
	}
	var all []RequestDump
	add := func(r *Request, queue, position int) {
		all = append(all, RequestDump{Queue: queue, Position: position, Arrived: r.arrived, Started: r.started, Work: r.Work, About: r.About})
	}
	for index, q := range s.queues {
		if q == nil {
			continue
		}
		position := 0
		for r := q.waiting.first; r != nil; r = r.next {
			add(r, index, position)
			position++
		}
		for _, r := range executing[q] {
			add(r, index, -1)
		}
	}
	for _, r := range executing[nil] {
		add(r, -1, -1)
	}
	return all
}

// FlowCounts returns a copy of the counters of a flow.
func (s *Set) FlowCounts(f *Flow) Flow {
	s.lock(time.Now())
	defer s.mu.Unlock()
	return *f
}

// MetersMeasured contains the measurements of a Set's Meters.
type MetersMeasured struct{ Seats, Executing, Waiting, Demand Measured }

// Measured returns the measurements of the meters.
func (s *Set) Measured() MetersMeasured {
	s.lock(time.Now())
	defer s.mu.Unlock()
	return MetersMeasured{s.meters.Seats.measured(), s.meters.Executing.measured(), s.meters.Waiting.measured(), s.meters.Demand.measured()}
}
