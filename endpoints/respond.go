package endpoints

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/codec"
)

// gzipThreshold is the size from which a body is compressed for clients that
// accept it: below, it costs more than it saves (KEP-156).
const gzipThreshold = 128 << 10

// writeBody sends a body that is complete, pretty or compressed where that is
// wanted.
func writeBody(w http.ResponseWriter, r *http.Request, t target, code int, body []byte) {
	if t.pretty && t.media == codec.JSON {
		var buf bytes.Buffer
		if err := json.Indent(&buf, body, "", "  "); err == nil {
			body = buf.Bytes()
		}
	}
	if len(body) >= gzipThreshold && acceptsGzip(r) {
		writeCompressed(w, r, t, code, body)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("Content-Type", t.media.String())
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went away cannot be told
}

func writeCompressed(w http.ResponseWriter, r *http.Request, t target, code int, body []byte) {
	z := newGzip(w)
	defer z.release()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", t.media.String())
	w.WriteHeader(code)
	_, _ = z.Write(body)
	_ = z.Close()
}

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

// gzipWriter is a compressor from the pool: each holds over half a megabyte.
type gzipWriter struct{ *gzip.Writer }

//nolint:gochecknoglobals // a pool of buffers has no state that one server could see of another
var gzipPool = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(fmt.Sprintf("gzip level: %v", err))
	}
	return z
}}

func newGzip(w http.ResponseWriter) gzipWriter {
	z := gzipPool.Get().(*gzip.Writer)
	z.Reset(w)
	return gzipWriter{z}
}

func (z gzipWriter) release() {
	z.Reset(nil)
	gzipPool.Put(z.Writer)
}

// respondRecord answers with one object.
func (c *call) respondRecord(t target, code int, record *codec.Record) error {
	var body []byte
	var err error
	switch t.view {
	case whole:
		body, err = c.encodeRecord(t, record)
	case table:
		body, err = c.encodeTableOf(t, record)
	case partial:
		body, err = encodePartial(t, record)
	case partialList:
		err = notOfList(t, c.resource)
	}
	if err != nil {
		return err
	}
	writeBody(c.w, c.r, t, code, body)
	return nil
}

func (c *call) encodeRecord(t target, record *codec.Record) ([]byte, error) {
	v := c.resource.Version
	if record.Kind().Hub.GVK.Kind != v.GVK.Kind {
		v = record.Kind().Hub // the answer is of another kind than the request
	}
	if t.media != codec.YAML {
		body, err := record.Append(nil, v, t.media)
		if err == codec.ErrNoProtobuf {
			return nil, notAcceptable(true, forObject)
		}
		return body, err
	}
	body, err := record.Append(nil, v, codec.JSON)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(body)
}

// WriteObject answers with any object that has its type set, in the media type
// that the client accepts.
func WriteObject(w http.ResponseWriter, r *http.Request, obj runtime.Object) {
	t, err := negotiate(r, forObject)
	if err == nil && t.view != whole {
		err = notAcceptable(true, forObject)
	}
	if err != nil {
		WriteStatus(w, r, StatusOf(err))
		return
	}
	body, err := codec.AppendObject(nil, obj, t.media)
	if err != nil {
		WriteStatus(w, r, StatusOf(err))
		return
	}
	writeBody(w, r, t, http.StatusOK, body)
}

// WriteBytes answers with a body whose Content-Type is set already,
// compressed where that pays.
func WriteBytes(w http.ResponseWriter, r *http.Request, body []byte) {
	if len(body) < gzipThreshold || !acceptsGzip(r) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Add("Vary", "Accept-Encoding")
	z := newGzip(w)
	defer z.release()
	_, _ = z.Write(body)
	_ = z.Close()
}
