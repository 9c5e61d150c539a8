package fairqueue

import (
	"fmt"
	"time"
)

// guess is the time that a request is charged for when it begins; what it took
// instead is settled when it ends.
const guess = 3 * time.Millisecond

// SeatSeconds is an amount of work: seats times the seconds that they are occupied.
type SeatSeconds float64

func workOf(seats int, d time.Duration) SeatSeconds { return SeatSeconds(float64(seats) * d.Seconds()) }

// String returns the form of kube-apiserver's dumps.
func (w SeatSeconds) String() string { return fmt.Sprintf("%.8fss", float64(w)) }

// Work is what a request is expected to take.
type Work struct {
	// InitialSeats are occupied while it is executed, FinalSeats for AdditionalLatency
	// afterwards: its client has the answer by then, and watches have the work.
	InitialSeats, FinalSeats int
	AdditionalLatency        time.Duration
}

// Seats is what is reserved: the most that the request occupies at a time.
func (w *Work) Seats() int { return max(w.InitialSeats, w.FinalSeats) }

// total is what a queue is charged when the request begins.
func (w *Work) total() SeatSeconds {
	return workOf(w.InitialSeats, guess) + workOf(w.FinalSeats, w.AdditionalLatency)
}

// narrow keeps the final seats within a limit. They are then occupied for longer.
func (w *Work) narrow(limit int) {
	if limit < 1 || w.FinalSeats <= limit {
		return
	}
	w.AdditionalLatency = time.Duration(float64(w.AdditionalLatency) * float64(w.FinalSeats) / float64(limit))
	w.FinalSeats = limit
}
