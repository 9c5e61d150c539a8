package http2

import "math"

// outflow is a window for bytes that are sent; the client widens it. A change of
// its settings may make it negative.
type outflow int32

// add extends the window. It returns false if the maximum window size is exceeded.
func (w *outflow) add(n int32) bool {
	sum := int64(*w) + int64(n)
	if sum > math.MaxInt32 || sum < math.MinInt32 {
		return false
	}
	*w = outflow(sum)
	return true
}

// inflow is a window for bytes that are received.
type inflow struct {
	avail  int32 // bytes that the client may send
	unsent int32 // read bytes without a WINDOW_UPDATE
}

// take records n received bytes. It returns false if they exceed the window.
func (w *inflow) take(n uint32) bool {
	if int64(n) > int64(w.avail) {
		return false
	}
	w.avail -= int32(n)
	return true
}

// give notes that n bytes have been read.
func (w *inflow) give(n int) { w.unsent += int32(n) }

// refill returns the increment for the next WINDOW_UPDATE: 0 while the client has
// more left than that, so that there are two of them per window.
func (w *inflow) refill() (n uint32) {
	if w.unsent == 0 || w.unsent < w.avail {
		return 0
	}
	n = uint32(w.unsent)
	w.avail += w.unsent
	w.unsent = 0
	return n
}
