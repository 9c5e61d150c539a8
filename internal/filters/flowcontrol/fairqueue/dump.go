package fairqueue

import "time"

// Dump is a copy of the state of a Set.
type Dump struct {
	Queues                        []QueueDump
	Requests                      []RequestDump // waiting and executing requests by queue, then executing requests without a queue
	Waiting, Executing            int
	SeatsInUse, SeatsWaiting      int
	Dispatched                    uint64
	Rejected, TimedOut, Cancelled uint64
	ActiveQueues                  int // queues with waiting requests
	Progress                      SeatSeconds
}

// QueueDump is the state of a queue.
type QueueDump struct {
	Waiting, Executing, SeatsInUse int
	NextDispatchR                  SeatSeconds
	InitialSeats, Seats            int // sums over the waiting requests
	Work                           SeatSeconds
}

// RequestDump is a waiting or executing request. Position is -1 if the request is executing. Queue
// is -1 if the request was never assigned to a queue. Data is Request.Data.
type RequestDump struct {
	Queue, Position  int
	Arrived, Started time.Time
	Work             Work
	Data             any
}

// Dump returns the state of the queues. If requests is true, it also contains the individual
// requests.
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
	for i := range max(len(s.queues), s.config.Queues) {
		q := &queue{}
		if i < len(s.queues) && s.queues[i] != nil {
			q = s.queues[i]
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
		all = append(all, RequestDump{Queue: queue, Position: position, Arrived: r.arrived, Started: r.started, Work: r.Work, Data: r.Data})
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

// Progress returns the virtual time.
func (s *Set) Progress() SeatSeconds {
	s.lock(time.Now())
	defer s.mu.Unlock()
	return s.progress
}

// FlowCounts returns a copy of the counters of a flow, which are guarded by the lock of the Set.
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
