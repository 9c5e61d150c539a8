package http2

import "time"

// MaxHeaderFields is the maximum number of header fields of a request, including repeated ones;
// more get 431. A field costs the server several times its size. The limit permits users with a
// thousand groups, which a front proxy sends in one field each.
const MaxHeaderFields = 2000

// Limits of the resources that a client can use.
const (
	prefaceTimeout  = 10 * time.Second // for the first bytes of a connection
	settingsTimeout = 2 * time.Second  // for the frame after them
	// lingerTimeout is how long a client may send after the server has closed its side or completed
	// a response, so that the client reads the data before a reset.
	lingerTimeout = time.Second
	// lingerBytes is the number of bytes that are read and dropped from a client after a protocol
	// violation: the amount that a client may send without window updates.
	lingerBytes = 1 << 20

	// The rest of a body that is still coming when the response is complete is read
	// and dropped, up to drainBytes and for drainTimeout. drainBytes is more than
	// the largest body that handlers take.
	drainBytes   = 4 << 20
	drainTimeout = 10 * time.Second

	// unstartedPerStream bounds the requests that wait for handlers of streams
	// which the client has reset: as many times the concurrent streams.
	unstartedPerStream = 4
	// maxSettings is how many values one frame may set.
	maxSettings = 100
	// maxReplies bounds the bytes of frames that answer the client's own, PING
	// for one, when it does not read them.
	maxReplies = 64 << 10

	// Maximum number of cheap frames without effect in a period.
	floodFrames = 10_000
	floodPeriod = 10 * time.Second
)

// flood counts frames that a client may send as often as it likes and that get
// it nowhere: PING, SETTINGS, PRIORITY, RST_STREAM, empty DATA, frames for
// streams that are over.
type flood struct {
	since  time.Duration // when the period began, by the connection's clock
	frames int
}

// add counts one frame, and reports whether it was one too many.
func (f *flood) add(now time.Duration) (tooMany bool) {
	if now-f.since > floodPeriod {
		f.since, f.frames = now, 0
	}
	f.frames++
	return f.frames > floodFrames
}
