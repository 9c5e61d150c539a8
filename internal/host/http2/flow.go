package http2

import "math"

// outflow is the send window of a stream or connection, in bytes. It becomes negative if the client reduces the
// initial window size in its settings.
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

// inflow is the receive window of a stream or connection.
type inflow struct {
	avail  int32 // bytes that the client may send
	unsent int32 // bytes read since the last WINDOW_UPDATE
}

// take records n received bytes. It returns false if they exceed the window.
func (w *inflow) take(n uint32) bool {
	if int64(n) > int64(w.avail) {
		return false
	}
	w.avail -= int32(n)
	return true
}

// release returns n bytes to the window after they were read. The next WINDOW_UPDATE includes them.
func (w *inflow) release(n int) { w.unsent += int32(n) }

// refill returns the increment for the next WINDOW_UPDATE. It returns 0 while the remaining window is
// larger than the increment, so that about two updates are sent per window.
func (w *inflow) refill() (n uint32) {
	if w.unsent == 0 || w.unsent < w.avail {
		return 0
	}
	n = uint32(w.unsent)
	w.avail += w.unsent
	w.unsent = 0
	return n
}
