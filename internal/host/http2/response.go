package http2

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"
)

var errHandlerReturned = errors.New("http2: the handler has returned")

// bodyBufferSize is the size of the buffer for response data, in bytes. The buffer combines small writes into
// one frame, and allows small responses to have a Content-Length.
const bodyBufferSize = 4 << 10

// bodyBuffer is the memory for buffered response data. A response owns a bodyBuffer only while there is such
// data, so a waiting watch has none.
type bodyBuffer struct{ b [bodyBufferSize]byte }

// response is the http.ResponseWriter of handlers. As in net/http, only the methods that set deadlines are safe
// for concurrent use, unless noted.
type response struct {
	stream *stream
	header http.Header
	head   bool // the request method is HEAD, so the response has no body

	status   int  // 0 until WriteHeader
	sent     bool // the header has been sent
	ended    bool // the complete response has been sent
	returned bool // the handler has returned

	fields   []hpack.HeaderField // the header when WriteHeader was called; nil once sent
	trailers []string            // keys of the announced trailers

	hasType, hasEncoding, hasDate bool  // the header has Content-Type, Content-Encoding, Date
	declared                      int64 // Content-Length, or -1
	written                       int64 // bytes of the body that the handler has written

	buffer   *bodyBuffer
	size     int  // number of bytes in buffer
	deferred bool // response data may still be pending in the connection
}

var _ interface {
	http.ResponseWriter
	http.Flusher
	FlushError() error
	WriteString(string) (int, error)
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
} = (*response)(nil)

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. Informational statuses (1xx) are sent immediately.
func (r *response) WriteHeader(code int) {
	if r.status != 0 || r.returned {
		return
	}
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	if code < 200 {
		fields := []hpack.HeaderField{{Name: ":status", Value: statusText(code)}}
		for key, values := range r.header {
			if key != "Content-Length" {
				fields = r.names().appendFields(fields, key, values)
			}
		}
		_ = r.stream.send(&responsePart{fields: fields, informational: true, kind: flushedPart}) // a lost client is reported by later writes
		return
	}
	r.status = code
	r.snapshotHeader()
}

func (r *response) names() *headerNames { return &r.stream.conn.srv.names }

// snapshotHeader copies the current header. Later changes by the handler have no effect, as net/http
// documents.
func (r *response) snapshotHeader() {
	fields := make([]hpack.HeaderField, 1, len(r.header)+4)
	fields[0] = hpack.HeaderField{Name: ":status", Value: statusText(r.status)}
	for key, values := range r.header {
		switch key {
		case "Content-Length":
			if len(values) == 0 {
				continue
			}
			n, err := strconv.ParseUint(values[0], 10, 63)
			if err != nil {
				continue
			}
			r.declared = int64(n)
			values = values[:1]
		case "Connection":
			if len(values) > 0 && values[0] == "close" {
				r.sendGoAway()
			}
			continue
		case "Content-Type":
			r.hasType = true
		case "Content-Encoding":
			r.hasEncoding = len(values) > 0 && values[0] != ""
		case "Date":
			r.hasDate = true
		case "Trailer":
			r.declareTrailers(values)
		}
		if strings.HasPrefix(key, http.TrailerPrefix) {
			continue
		}
		fields = r.names().appendFields(fields, key, values)
	}
	r.fields = fields
}

// sendGoAway appends GOAWAY, so that the client sends its next requests on another connection.
func (r *response) sendGoAway() {
	c := r.stream.conn
	c.mu.Lock()
	c.goAway()
	c.mu.Unlock() // the frame is written with the response
}

func (r *response) declareTrailers(values []string) {
	for _, value := range values {
		for key := range strings.SplitSeq(value, ",") {
			r.declareTrailer(http.CanonicalHeaderKey(strings.TrimSpace(key)))
		}
	}
}

func (r *response) declareTrailer(key string) {
	if key != "" && validTrailer(key) && !slices.Contains(r.trailers, key) {
		r.trailers = append(r.trailers, key)
	}
}

// bodyAllowed reports whether the status allows a body.
func (r *response) bodyAllowed() bool {
	return r.status >= 200 && r.status != http.StatusNoContent && r.status != http.StatusNotModified
}

// Write implements http.ResponseWriter. It does not retain p. Data is sent by Flush, at the end of the
// response, or when the buffer is full. Write may block if the client does not read. It returns
// http.ErrBodyNotAllowed, http.ErrContentLength, or an error if the handler has returned or the stream has
// ended.
func (r *response) Write(p []byte) (int, error) {
	room, err := r.reserve(len(p))
	if err != nil {
		return 0, err
	}
	if room {
		r.size += copy(r.buffer.b[r.size:], p)
		return len(p), nil
	}
	if err := r.send(p, deferredPart); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Send is like Write followed by Flush, and returns the same errors, but does not copy p to the response's
// buffer. It may block if the client does not read. It does not retain p.
func (r *response) Send(p []byte) error {
	if err := r.accept(len(p)); err != nil {
		return err
	}
	return r.send(p, flushedPart)
}

// WriteString implements io.StringWriter.
func (r *response) WriteString(s string) (int, error) {
	room, err := r.reserve(len(s))
	if err != nil {
		return 0, err
	}
	if room {
		r.size += copy(r.buffer.b[r.size:], s)
		return len(s), nil
	}
	if err := r.send([]byte(s), deferredPart); err != nil {
		return 0, err
	}
	return len(s), nil
}

// accept counts n more bytes of the body. It returns an error if the bytes must not be written.
func (r *response) accept(n int) error {
	if r.returned {
		return errHandlerReturned
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !r.bodyAllowed() {
		return http.ErrBodyNotAllowed
	}
	r.written += int64(n)
	if r.declared >= 0 && r.written > r.declared {
		return http.ErrContentLength
	}
	return nil
}

// reserve accepts n more bytes and reports whether the buffer has room for them.
func (r *response) reserve(n int) (room bool, err error) {
	if err := r.accept(n); err != nil {
		return false, err
	}
	if r.size+n > bodyBufferSize {
		return false, nil
	}
	if r.buffer == nil {
		r.buffer = r.stream.conn.srv.bodyBuffers.Get().(*bodyBuffer)
	}
	return true, nil
}

// Flush implements http.Flusher.
func (r *response) Flush() { _ = r.FlushError() }

// FlushError implements the interface that http.ResponseController uses.
func (r *response) FlushError() error {
	if r.returned {
		return errHandlerReturned
	}
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.sent && r.size == 0 && !r.deferred {
		return r.stream.closeError()
	}
	return r.send(nil, flushedPart)
}

// send sends the header if it is pending, the buffered data, and p.
func (r *response) send(p []byte, kind partKind) error {
	defer r.release()
	end := kind == lastPart
	var buffered []byte
	if r.size > 0 {
		buffered = r.buffer.b[:r.size]
	}
	out := responsePart{data: [2][]byte{buffered, p}, kind: kind}
	if !r.sent {
		r.sent = true
		if len(buffered) == 0 {
			buffered = p
		}
		out.fields = r.completeHeader(buffered, len(out.data[0])+len(p), end)
		r.fields = nil
	}
	if end {
		out.trailers = r.trailerFields()
	}
	if r.head {
		if r.ended {
			return nil
		}
		out.data, out.kind, out.trailers = [2][]byte{}, lastPart, nil
	}
	r.ended, r.deferred = out.kind == lastPart, out.kind == deferredPart
	return r.stream.send(&out)
}

// completeHeader returns the header with defaults: the content type, the date and, for a complete
// response, the length of the body.
func (r *response) completeHeader(beginning []byte, size int, complete bool) []hpack.HeaderField {
	fields := r.fields
	if !r.hasType && !r.hasEncoding && r.bodyAllowed() && len(beginning) > 0 {
		fields = append(fields, hpack.HeaderField{Name: "content-type", Value: http.DetectContentType(beginning)})
	}
	if complete && r.declared < 0 && r.bodyAllowed() && (size > 0 || !r.head) {
		fields = append(fields, hpack.HeaderField{Name: "content-length", Value: strconv.Itoa(size), Sensitive: true})
	}
	if !r.hasDate {
		fields = append(fields, hpack.HeaderField{Name: "date", Value: r.stream.conn.srv.dateHeader()})
	}
	return fields
}

// trailerFields returns the trailers that the handler has set, which are the announced trailers and the header
// keys with http.TrailerPrefix.
func (r *response) trailerFields() []hpack.HeaderField {
	for key, values := range r.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			name = http.CanonicalHeaderKey(name)
			r.declareTrailer(name)
			if slices.Contains(r.trailers, name) {
				r.header[name] = values
			}
		}
	}
	slices.Sort(r.trailers)
	var fields []hpack.HeaderField
	for _, key := range r.trailers {
		fields = r.names().appendFields(fields, key, r.header[key])
	}
	return fields
}

// finish completes the response when the handler has returned.
func (r *response) finish() {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !r.ended {
		_ = r.send(nil, lastPart) // the handler has returned, and no one else can act on an error
	}
}

// Answer sends a complete response with the given header while the handler is still running, and ends the
// response. Later writes of the handler fail. The caller must ensure that the handler does not call methods of
// the response at the same time. Answer returns an error if the handler has returned or already called
// WriteHeader, and the errors of Write. It takes ownership of header, but not of body.
func (r *response) Answer(status int, header http.Header, body []byte) error {
	if r.returned || r.status != 0 {
		return errHandlerReturned
	}
	r.header = header
	r.WriteHeader(status)
	_, err := r.Write(body)
	r.finish()
	r.returned = true
	return err
}

// Cancel cancels the context of the request with a cause, and resumes a detached response. The handler can
// still complete the response. Cancel is safe for concurrent use.
func (r *response) Cancel(cause error) {
	r.stream.cancel(cause)
	r.stream.resume()
}

// release returns the buffer to the pool, if there is one.
func (r *response) release() {
	if r.buffer != nil {
		r.stream.conn.srv.bodyBuffers.Put(r.buffer)
		r.buffer, r.size = nil, 0
	}
}

// closeError returns the error with which the stream has ended, or nil while the stream is open.
func (s *stream) closeError() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.err
}

// SetReadDeadline implements the method that http.ResponseController uses. Reads of the request body fail after
// the deadline. It is safe for concurrent use.
func (r *response) SetReadDeadline(at time.Time) error {
	r.stream.setReadDeadline(at)
	return nil
}

// SetWriteDeadline implements the method that http.ResponseController uses. The stream is reset at the
// deadline. It is safe for concurrent use.
func (r *response) SetWriteDeadline(at time.Time) error {
	r.stream.setWriteDeadline(at)
	return nil
}

// EnableFullDuplex implements the method that http.ResponseController uses. It does nothing, because HTTP/2 is
// always full-duplex.
func (r *response) EnableFullDuplex() error { return nil }
