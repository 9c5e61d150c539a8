package http2

import "time"

// MaxHeaderFields is the maximum number of header fields of a request, including repeated fields. Requests
// with more fields are rejected with status 431, because a field occupies several times its size in memory.
// The limit is high enough for a user with a thousand groups, because a front proxy sends each group in its own
// field.
const MaxHeaderFields = 2000

// Limits of the resources that a client can use.
const (
	prefaceTimeout  = 10 * time.Second // for the client's connection preface
	settingsTimeout = 2 * time.Second  // for the SETTINGS frame after the preface
	// lingerTimeout is the delay between the last data that is sent and the close of the connection or the
	// reset of the stream. It gives the client time to read the data.
	lingerTimeout = time.Second
	// lingerBytes is the maximum number of bytes that are read and dropped after a protocol violation. It
	// equals the default receive window of a connection.
	lingerBytes = 1 << 20

	// After a complete response, the rest of the request body is read and dropped, up to drainBytes
	// and for at most drainTimeout. drainBytes exceeds the largest body that handlers accept.
	drainBytes   = 4 << 20
	drainTimeout = 10 * time.Second

	// unstartedPerStream limits the streams that wait for a handler slot, as a multiple of the
	// maximum number of concurrent streams. Handlers of streams that the client has reset occupy
	// slots until they return.
	unstartedPerStream = 4
	// maxResets is the number of streams, reset by the server, whose late trailers are ignored (RFC 9113,
	// section 5.1). Trailers of other closed streams close the connection.
	maxResets = 100
	// maxSettings is the maximum number of values in a SETTINGS frame.
	maxSettings = 100
	// maxReplies is the maximum size of the pending replies to a client's control frames, such as PING, in
	// bytes. A client that does not read its replies exceeds it.
	maxReplies = 64 << 10

	// floodFrames is the maximum number of useless frames that a client may send in a floodPeriod.
	floodFrames = 10_000
	floodPeriod = 10 * time.Second
)

// flood counts frames that are not limited by flow control and have no useful effect: PING,
// SETTINGS, PRIORITY, RST_STREAM, empty DATA, unknown frames, and frames for closed streams.
type flood struct {
	since  time.Duration // start of the period, by the connection's clock
	frames int
}

// add counts one frame and reports whether the limit of the period is exceeded.
func (f *flood) add(now time.Duration) (tooMany bool) {
	if now-f.since > floodPeriod {
		f.since, f.frames = now, 0
	}
	f.frames++
	return f.frames > floodFrames
}
