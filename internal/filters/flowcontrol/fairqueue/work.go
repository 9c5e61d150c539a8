package fairqueue

import (
	"fmt"
	"time"
)

// guess is the duration that a request is charged at its start. The difference is corrected at its
// end.
const guess = 3 * time.Millisecond

// SeatSeconds is an amount of work: seats times the seconds that they are occupied.
type SeatSeconds float64

func workOf(seats int, d time.Duration) SeatSeconds { return SeatSeconds(float64(seats) * d.Seconds()) }

// String returns the form of kube-apiserver's dumps.
func (w SeatSeconds) String() string { return fmt.Sprintf("%.8fss", float64(w)) }

// Work is the expected work of a request.
type Work struct {
	// InitialSeats are occupied while it is executed, FinalSeats for AdditionalLatency
	// afterwards: its client has the answer by then, and watches have the work.
	InitialSeats, FinalSeats int
	AdditionalLatency        time.Duration
}

// Seats returns the maximum number of seats that the request occupies at a time.
func (w *Work) Seats() int { return max(w.InitialSeats, w.FinalSeats) }

// total returns the initial charge of a request.
func (w *Work) total() SeatSeconds {
	return workOf(w.InitialSeats, guess) + workOf(w.FinalSeats, w.AdditionalLatency)
}

// narrow limits the final seats. They are then occupied for longer.
func (w *Work) narrow(limit int) {
	if limit < 1 || w.FinalSeats <= limit {
		return
	}
	w.AdditionalLatency = time.Duration(float64(w.AdditionalLatency) * float64(w.FinalSeats) / float64(limit))
	w.FinalSeats = limit
}
