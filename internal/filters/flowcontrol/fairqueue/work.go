package fairqueue

import (
	"fmt"
	"time"
)

// estimatedDuration is the assumed execution time of a request. The charge is corrected when the
// request ends.
const estimatedDuration = 3 * time.Millisecond

// SeatSeconds is an amount of work, measured as the number of occupied seats times the seconds for
// which they are occupied.
type SeatSeconds float64

func workOf(seats int, d time.Duration) SeatSeconds { return SeatSeconds(float64(seats) * d.Seconds()) }

// String formats the value as in kube-apiserver's dumps.
func (w SeatSeconds) String() string { return fmt.Sprintf("%.8fss", float64(w)) }

// Work is the expected work of a request.
type Work struct {
	// InitialSeats are occupied during the execution. FinalSeats are occupied for AdditionalLatency after the
	// execution, while watches are notified of a completed write.
	InitialSeats, FinalSeats int
	AdditionalLatency        time.Duration
}

// Seats returns the number of seats to allocate, which is the larger of InitialSeats and FinalSeats.
func (w *Work) Seats() int { return max(w.InitialSeats, w.FinalSeats) }

// total returns the charge of a request at its start.
func (w *Work) total() SeatSeconds {
	return workOf(w.InitialSeats, estimatedDuration) + workOf(w.FinalSeats, w.AdditionalLatency)
}

// limitFinalSeats limits FinalSeats, and increases AdditionalLatency in proportion. A limit below 1
// has no effect.
func (w *Work) limitFinalSeats(limit int) {
	if limit < 1 || w.FinalSeats <= limit {
		return
	}
	w.AdditionalLatency = time.Duration(float64(w.AdditionalLatency) * float64(w.FinalSeats) / float64(limit))
	w.FinalSeats = limit
}
