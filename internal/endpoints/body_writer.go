package endpoints

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"mainstay.dev/mainstay/internal/request"
)

// gzipThreshold is the minimum size of a compressed body, in bytes. The compression of smaller bodies costs
// more than it saves (KEP-156).
const gzipThreshold = 128 << 10

// unknownLength is the length of a body that is streamed.
const unknownLength = -1

// bodyWriter writes the body of a response in chunks, compressed if worthwhile. Before the first chunk, a
// response can still become an error. The first chunk of a body of unknown length must be large enough for
// compression, unless finish writes the complete body.
type bodyWriter struct {
	w http.ResponseWriter
	r *http.Request
	// mediaType and code are for the response header; if empty, the caller has set them.
	mediaType string
	code      int
	// length in bytes, or unknownLength.
	length  int
	started bool
	zip     *gzip.Writer // nil without compression
	zipped  bytes.Buffer // pending output of zip
	// audit collects the body; nil disables it.
	audit *auditedBody
}

func (o *bodyWriter) start() {
	o.started = true
	h := o.w.Header()
	switch {
	case (o.length < 0 || o.length >= gzipThreshold) && acceptsGzip(o.r):
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		o.zip = gzipPool.Get().(*gzip.Writer)
		o.zip.Reset(&o.zipped)
	case o.length >= 0:
		h.Set("Content-Length", strconv.Itoa(o.length))
	}
	if o.mediaType != "" {
		h.Set("Content-Type", o.mediaType)
	}
	if o.code != 0 {
		o.w.WriteHeader(o.code)
	}
}

// write writes a chunk. An error means that the client has disconnected.
func (o *bodyWriter) write(b []byte) error {
	if !o.started {
		o.start()
	}
	o.audit.write(b)
	if o.zip == nil {
		return o.send(b)
	}
	if _, err := o.zip.Write(b); err != nil {
		return err
	}
	return o.sendZipped()
}

func (o *bodyWriter) send(b []byte) error {
	defer request.MeasureLatency(o.r.Context(), request.StageResponseWrite)()
	_, err := o.w.Write(b)
	return err
}

// sendZipped sends the compressed data.
func (o *bodyWriter) sendZipped() error {
	defer o.zipped.Reset()
	if o.zipped.Len() == 0 {
		return nil
	}
	return o.send(o.zipped.Bytes())
}

// finish writes the last chunk and completes the response.
func (o *bodyWriter) finish(b []byte) error {
	if !o.started && o.length < 0 {
		o.length = len(b)
	}
	if err := o.write(b); err != nil {
		return err
	}
	o.audit.end()
	if o.zip == nil {
		return nil
	}
	if err := o.zip.Close(); err != nil {
		return err
	}
	return o.sendZipped()
}

// fail returns an error to send to the client. After the start of the response, it aborts the
// connection, so that clients detect the incomplete response.
func (o *bodyWriter) fail(err error) error {
	if !o.started {
		return err
	}
	panic(http.ErrAbortHandler)
}

// release returns the compressor to the pool. The writer must not be used afterwards.
func (o *bodyWriter) release() {
	if o.zip != nil {
		o.zip.Reset(nil)
		gzipPool.Put(o.zip)
		o.zip = nil
	}
}

// gzipLevel is the compression level of responses. Most compressed responses are lists. For lists, level 1
// needs more CPU than level 2, and its output is up to 50 % larger.
const gzipLevel = 2

// gzipPool contains *gzip.Writer values of about a megabyte each.
//
//nolint:gochecknoglobals // buffers without content, which servers in one process can share
var gzipPool = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzipLevel)
	if err != nil {
		panic(err) // gzipLevel is invalid
	}
	return w
}}

func acceptsGzip(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			if strings.TrimSpace(name) == "gzip" && strings.ReplaceAll(params, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}
