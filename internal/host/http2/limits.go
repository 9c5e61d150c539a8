package http2

import "time"

// MaxHeaderFields is how many fields the header of a request may have, repeated
// ones counted each time; more are answered with 431. A field costs the server
// several times its bytes. The limit leaves room for users with a thousand groups,
// which a front proxy sends in a field each.
const MaxHeaderFields = 2000

// What a client may make this server wait for or keep.
const (
	prefaceTimeout  = 10 * time.Second // for the first bytes of a connection
	settingsTimeout = 2 * time.Second  // for the frame after them
	// lingerTimeout is how long a client may still send when our side is closed or a
	// response is complete, so that it reads what we sent before TCP or the stream
	// is reset.
	lingerTimeout = time.Second
	// lingerBytes is how much is read and dropped meanwhile of a client that has violated
	// the protocol: what a client that waits for no window may have sent.
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

	// Frames that cost the client nothing and mean next to nothing, in a period.
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
