package fairqueue

// Dispatch is the state of the virtual clock at the time when a request left its queue. In virtual
// time, all queues are served simultaneously.
type Dispatch struct {
	// Progress is the virtual time at dispatch. Start is the virtual start time of the request.
	Progress, Start SeatSeconds
	// Next is the range of the virtual start times of the oldest requests of all queues with waiting
	// requests, including the queue of the request. Discounted subtracts the expected work of executing
	// requests.
	Next, Discounted Span
}

// Span is the minimum and maximum of a set of values.
type Span struct{ Min, Max SeatSeconds }

func (s *Span) add(value SeatSeconds) { s.Min, s.Max = min(s.Min, value), max(s.Max, value) }

// recordDispatch records the state before the next request of a queue leaves it.
func (s *Set) recordDispatch(q *queue) {
	if s.last == nil {
		s.last = &Dispatch{}
	}
	start, discounted := q.nextDispatchR, q.discounted()
	*s.last = Dispatch{Progress: s.progress, Start: start, Next: Span{start, start}, Discounted: Span{discounted, discounted}}
	if s.waiting == 0 {
		return
	}
	for _, other := range s.queues {
		if other != nil && other.waiting.first != nil {
			s.last.Next.add(other.nextDispatchR)
			s.last.Discounted.add(other.discounted())
		}
	}
}

// discounted returns nextDispatchR without the charge for executing requests.
func (q *queue) discounted() SeatSeconds {
	return q.nextDispatchR - workOf(q.seatsInUse, estimatedDuration)
}

// LastDispatch returns the state when the last request left its queue. It returns false if no request has
// left a queue.
func (s *Set) LastDispatch() (Dispatch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return Dispatch{}, false
	}
	return *s.last, true
}
