package fairqueue

// Dispatch is how things stood when a request left its queue, in the world where all
// queues are served at the same time.
type Dispatch struct {
	// Progress is the virtual time at dispatch, Start the virtual start time of the request.
	Progress, Start SeatSeconds
	// Next has the minimum and maximum over the queues with waiting requests, including this one,
	// of the virtual start time of the oldest request. Discounted subtracts the expected work of
	// executing requests.
	Next, Discounted Span
}

// Span is the least and the greatest of some values.
type Span struct{ Min, Max SeatSeconds }

func (s *Span) add(value SeatSeconds) { s.Min, s.Max = min(s.Min, value), max(s.Max, value) }

// noteDispatch notes that the next request of a queue is about to leave it.
func (s *Set) noteDispatch(q *queue) {
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

func (q *queue) discounted() SeatSeconds { return q.nextDispatchR - workOf(q.seatsInUse, guess) }

// LastDispatch returns the state when the last request left its queue, or false if there was none.
func (s *Set) LastDispatch() (Dispatch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return Dispatch{}, false
	}
	return *s.last, true
}
