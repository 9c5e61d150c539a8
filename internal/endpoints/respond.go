package endpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// writeBody writes a complete body, indented or compressed if requested.
func writeBody(w http.ResponseWriter, r *http.Request, t target, code int, body []byte) {
	auditResponse(r, t.media, body)
	if t.pretty && t.media == codec.JSON {
		var buf bytes.Buffer
		if err := json.Indent(&buf, body, "", "  "); err == nil {
			body = buf.Bytes()
		}
	}
	out := bodyWriter{w: w, r: r, mediaType: t.media.String(), code: code, length: len(body)}
	defer out.release()
	_ = out.finish(body) // the client may have disconnected
}

// bodyPool contains buffers for bodies of single objects. Without the pool, half of the memory that a get
// allocates would be such buffers.
//
//nolint:gochecknoglobals // a pool of buffers has no state that one server could see of another
var bodyPool = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBody is the maximum size of a reused buffer, in bytes.
const maxPooledBody = 64 << 10

// respondRecord responds with an object.
func (c *call) respondRecord(t target, code int, record *codec.Record) error {
	defer measureSerialization(c.r.Context())()
	if t.view != whole || request.AuditFrom(c.r.Context()).RecordsResponseBody() { // the audit event retains the body
		_, err := c.writeRecord(nil, t, code, record)
		return err
	}
	pooled := bodyPool.Get().(*[]byte)
	body, err := c.writeRecord((*pooled)[:0], t, code, record)
	if cap(body) <= maxPooledBody {
		*pooled = body
	}
	bodyPool.Put(pooled)
	return err
}

// measureSerialization measures request.StageSerialize of an audited request until the returned function is
// called, without the time for reading objects from storage and for writing the response.
func measureSerialization(ctx context.Context) (end func()) {
	if request.AuditFrom(ctx) == nil {
		return func() {}
	}
	other := func() time.Duration { return request.Latency(ctx, request.StageStorage, request.StageResponseWrite) }
	began, before := time.Now(), other()
	return func() {
		request.AddLatency(ctx, request.StageSerialize, time.Since(began)-(other()-before))
	}
}

// writeRecord responds with an object, encoded into dst if it is large enough. It returns the body.
func (c *call) writeRecord(dst []byte, t target, code int, record *codec.Record) ([]byte, error) {
	_, span := tracing.Start(c.r.Context(), "SerializeObject")
	defer span.End(nil)
	encode := func(t target) ([]byte, error) {
		switch t.view {
		case table:
			return c.encodeTableOf(t, record)
		case partial:
			return encodePartial(t, record)
		}
		return c.encodeRecord(dst, t, record)
	}
	body, err := encode(t)
	if err != nil {
		return nil, err
	}
	auditProtobuf(c.r, t, encode)
	writeBody(c.w, c.r, t, code, body)
	return body, nil
}

// respondObject responds with an object with TypeMeta.
func respondObject(w http.ResponseWriter, r *http.Request, t target, code int, obj runtime.Object) error {
	encode := func(t target) ([]byte, error) { return codec.AppendObject(nil, obj, t.media) }
	body, err := encode(t)
	if err != nil {
		return err
	}
	auditStatus(r, obj)
	auditProtobuf(r, t, encode)
	writeBody(w, r, t, code, body)
	return nil
}

// encodeRecord encodes the object of a record. The result may use the memory of dst, or be newly
// allocated.
func (c *call) encodeRecord(dst []byte, t target, record *codec.Record) ([]byte, error) {
	v := c.resource.Version
	if record.Kind().Hub.GVK.Kind != v.GVK.Kind {
		v = record.Kind().Hub // the response has another kind than the request
	}
	if t.media != codec.YAML {
		body, err := record.Append(dst, v, t.media)
		if err == codec.ErrNoProtobuf {
			return nil, notAcceptable(true, forObject)
		}
		return body, err
	}
	body, err := record.Append(dst, v, codec.JSON)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(body)
}

// WriteObject responds with status 200 and an object, in the media type that the client accepts. The TypeMeta
// of the object must be set. WriteObject does not support Tables and partial metadata: a request for one of
// them receives a 406. Errors are written as a Status.
func WriteObject(w http.ResponseWriter, r *http.Request, obj runtime.Object) {
	t, err := negotiate(r, forObject)
	if err == nil && t.view != whole {
		err = notAcceptable(true, forObject)
	}
	if err != nil {
		WriteStatus(w, r, StatusOf(err))
		return
	}
	if err := respondObject(w, r, t, http.StatusOK, obj); err != nil {
		WriteStatus(w, r, StatusOf(err))
	}
}

// WriteBytes writes a complete body, compressed with gzip if the client accepts it and the body is large. The
// caller must set the Content-Type header before. WriteBytes ignores write errors, because they mean that the
// client has disconnected.
func WriteBytes(w http.ResponseWriter, r *http.Request, body []byte) {
	out := bodyWriter{w: w, r: r, length: len(body)}
	defer out.release()
	_ = out.finish(body) // the client may have disconnected
}
