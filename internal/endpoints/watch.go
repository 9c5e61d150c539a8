package endpoints

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// watch handles a watch request. It sends each batch of available events in one write.
func (c *call) watch(s rest.Watcher) error {
	f, err := c.startWatch(s)
	if err != nil {
		return err
	}
	if isWebSocket(c.r) {
		defer f.close()
		return c.serveWebSocket(f)
	}
	c.streamEvents(f)
	return nil
}

// activeWatch is a watch with its timeout and encoder.
type activeWatch struct {
	rest.Watch
	ctx    context.Context // the request's context; the watch ends when it is done
	timer  *time.Timer     // cancels ctx
	framer *framer
}

// startWatch starts the watch and its timeout. The caller must close the result.
func (c *call) startWatch(s rest.Watcher) (*activeWatch, error) {
	t, err := c.negotiate(forWatch)
	if err != nil {
		return nil, err
	}
	options, raw, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	f := &activeWatch{}
	if f.framer, err = c.newFramer(t); err != nil {
		return nil, err
	}
	timeout := c.watchTimeout(raw.TimeoutSeconds)
	options.Visibility, options.Deadline = request.VisibilityFrom(c.r.Context()), time.Now().Add(timeout)
	f.setTimeout(c.r.Context(), timeout)
	if f.Watch, err = s.Watch(f.ctx, c.namespace(), options); err != nil {
		f.end()
		return nil, err
	}
	return f, nil
}

// setTimeout cancels the request's context after a timeout. The context is canceled earlier if the client
// disconnects or the server stops.
func (f *activeWatch) setTimeout(ctx context.Context, timeout time.Duration) {
	f.ctx = ctx
	f.timer = time.AfterFunc(timeout, func() { request.Cancel(ctx, context.DeadlineExceeded) })
}

// end stops the timer and marks the watch as initialized.
func (f *activeWatch) end() {
	request.WatchInitialized(f.ctx) // in case the watch ends before its initial events are sent
	f.timer.Stop()
}

func (f *activeWatch) close() {
	_ = f.Close()
	f.end()
}

// watchTimeout returns the maximum duration of a watch. seconds is the client's request, or nil.
func (c *call) watchTimeout(seconds *int64) time.Duration {
	if seconds != nil && *seconds > 0 {
		return time.Duration(*seconds) * time.Second
	}
	least := c.api.config.MinWatchTimeout
	return least + time.Duration(rand.Int64N(int64(least))) // the random duration spreads the reconnections of clients
}

// streamEvents starts the response. If the writer supports it, events are sent after the handler has
// returned.
func (c *call) streamEvents(f *activeWatch) {
	contentType := codec.JSONType
	if f.framer.target.media == codec.Protobuf {
		contentType = codec.ProtobufType + ";stream=watch"
	}
	s := &eventStream{activeWatch: f, w: c.w, config: &c.api.config, resource: c.resource}
	defer func() {
		if !s.detached {
			s.close()
		}
	}()
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return // the client has disconnected
	}
	request.Release(c.r)
	if d, ok := c.w.(detacher); ok {
		s.handOff, s.resume = d.HandOff, d.Resume
		s.detached = d.Detach(s.run)
	}
	for done := s.detached; !done; {
		done = s.send(s.Next(s.ctx))
	}
}

// detacher is a ResponseWriter that allows its handler to return before the response is complete. If Detach
// returns true, the writer calls do to continue the response. While do returns false, it is called again
// after each Resume. do must call HandOff before it blocks on an operation other than a write to the
// client.
type detacher interface {
	Detach(do func() (done bool)) bool
	Resume()
	HandOff()
}

// eventStream is the response to a watch request. A server has many active watches, so eventStream does not
// retain other memory of the request.
type eventStream struct {
	*activeWatch
	w               http.ResponseWriter
	config          *Config
	resource        *rest.Resource
	detached        bool
	handOff, resume func()
}

// batchesPerRun is the maximum number of event batches that a watch sends before other responses on
// the same connection continue.
const batchesPerRun = 8

// run sends the available events of a detached watch. done reports whether the watch has ended.
func (s *eventStream) run() (done bool) {
	defer func() {
		if done {
			s.close()
		}
	}()
	done = true // so that a panic also closes the watch
	for polled := 0; polled < batchesPerRun; polled++ {
		events, err := rest.Poll(s.ctx, s.Watch, s.resume)
		switch {
		case errors.Is(err, rest.ErrWouldBlock):
			s.handOff()
			polled = 0 // after HandOff, no other response has to wait for this one
			events, err = s.Next(s.ctx)
		case len(events) == 0 && err == nil:
			return false
		}
		if s.send(events, err) {
			return true
		}
	}
	s.resume()
	return false
}

// eventPool contains buffers for encoded events. An idle watch has no buffer.
var eventPool = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxEventBuffer is the maximum size of a buffer that is returned to eventPool, in bytes.
const maxEventBuffer = 64 << 10

// send sends the results of Next or Poll. done reports whether the watch has ended.
func (s *eventStream) send(events []rest.Event, err error) (done bool) {
	pooled := eventPool.Get().(*[]byte)
	defer eventPool.Put(pooled)
	buf, done := s.framer.appendBatch((*pooled)[:0], events, err)
	if cap(buf) <= maxEventBuffer {
		*pooled = buf
	}
	if len(buf) == 0 {
		return done
	}
	if err := sendNow(s.w, buf); err != nil {
		return true // the client has disconnected
	}
	s.config.countEvents(s.resource, len(events), len(buf))
	return done
}

// sendNow writes and flushes p, in a single call if w supports it.
func sendNow(w http.ResponseWriter, p []byte) error {
	if s, ok := w.(interface{ Send(p []byte) error }); ok {
		return s.Send(p)
	}
	if _, err := w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

func (c *Config) countEvents(resource *rest.Resource, events, bytes int) {
	if c.OnWatchEvents != nil {
		c.OnWatchEvents(resource, events, bytes)
	}
}

// framer encodes events as frames of a stream.
type framer struct {
	target  target
	version *codec.Version
	hub     *codec.Version // the version of the objects in records
	tables  *tableBuilder
	// columnsSent reports whether a table with columns was sent. Only the first table of a stream
	// has columns.
	columnsSent bool
	head        []byte
}

func (c *call) newFramer(t target) (*framer, error) {
	v := c.resource.Version
	f := &framer{target: t, version: v, hub: v, head: codec.JSONHead(v.GVK)}
	if c.resource.Kind != nil {
		f.hub = c.resource.Kind.Hub
	}
	if t.view == table {
		m, err := c.tableBuilder(t)
		if err != nil {
			return nil, err
		}
		f.tables = m
	}
	return f, nil
}

// appendBatch appends the frames of one batch. done reports whether the stream ends after the batch. An
// error that is relevant to the client becomes the last event.
func (f *framer) appendBatch(dst []byte, events []rest.Event, err error) (_ []byte, done bool) {
	for i := range events {
		var failed error
		if dst, failed = f.append(dst, &events[i]); failed != nil {
			return f.appendError(dst, failed), true
		}
	}
	switch {
	case err == nil:
		return dst, false
	case errors.Is(err, rest.ErrWatchClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return dst, true
	}
	return f.appendError(dst, err), true
}

// append appends the frame of one event. Complete objects are copied from the encoding that all
// watchers share.
func (f *framer) append(dst []byte, event *rest.Event) ([]byte, error) {
	if event.Type == apiwatch.Bookmark || f.target.view != whole {
		return f.appendUnshared(dst, event)
	}
	if f.target.media == codec.Protobuf {
		return f.appendProtobuf(dst, event)
	}
	start := len(dst)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, event.Type...)
	dst = append(dst, `","object":`...)
	dst = append(dst, f.head...)
	dst, err := event.Record.AppendSharedJSONTail(dst, f.version)
	if err != nil {
		return dst[:start], err
	}
	return append(dst, "}\n"...), nil
}

func (f *framer) appendProtobuf(dst []byte, event *rest.Event) ([]byte, error) {
	size, err := event.Record.ProtobufSize(f.version)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = appendFrameHead(dst, event.Type, codec.EnvelopeSize(f.version.GVK, size))
	dst = codec.AppendEnvelope(dst, f.version.GVK, size)
	if dst, err = event.Record.AppendProtobuf(dst, f.version); err != nil {
		return dst[:start], err
	}
	return codec.CloseEnvelope(dst), nil
}

// appendUnshared appends a frame with an object that is encoded only for this watcher.
func (f *framer) appendUnshared(dst []byte, event *rest.Event) ([]byte, error) {
	obj, err := f.object(event)
	if err != nil {
		return dst, err
	}
	return f.appendObject(dst, event.Type, obj)
}

func (f *framer) object(event *rest.Event) (runtime.Object, error) {
	if event.Type == apiwatch.Bookmark {
		return f.bookmark(event)
	}
	if f.target.view == partial {
		obj, err := event.Record.Shared()
		if err != nil {
			return nil, err
		}
		return partialOf(obj, f.target.viewVersion), nil
	}
	row, err := f.tables.row(event.Record)
	if err != nil {
		return nil, err
	}
	made := f.tables.table(metav1.ListMeta{ResourceVersion: strconv.FormatInt(event.Record.Revision(), 10)}, !f.columnsSent)
	f.columnsSent = true
	made.Rows = append(made.Rows, row)
	return made, nil
}

// bookmark returns an object that contains only a revision (KEP-956). At the end of the initial
// events, it also has the annotation of KEP-3157.
func (f *framer) bookmark(event *rest.Event) (runtime.Object, error) {
	obj := f.version.New()
	obj.GetObjectKind().SetGroupVersionKind(f.version.GVK)
	obj.SetResourceVersion(strconv.FormatInt(event.Revision, 10))
	if event.InitialEventsEnd {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	switch f.target.view {
	case partial:
		return partialOf(obj, f.target.viewVersion), nil
	case table: // its row shows an empty object
		cells, conditions, err := f.tables.convertor.Cells(f.hub.New(), f.tables.clock.Now())
		if err != nil {
			return nil, err
		}
		made := f.tables.table(metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, !f.columnsSent)
		f.columnsSent = true
		made.Rows = append(made.Rows, metav1.TableRow{Cells: cells, Conditions: conditions,
			Object: runtime.RawExtension{Object: partialOf(obj, f.target.viewVersion)}})
		return made, nil
	}
	return obj, nil
}

func (f *framer) appendObject(dst []byte, kind apiwatch.EventType, obj runtime.Object) ([]byte, error) {
	if f.target.media == codec.Protobuf {
		body, err := codec.AppendObject(nil, obj, codec.Protobuf)
		if err != nil {
			return dst, err
		}
		return append(appendFrameHead(dst, kind, len(body)), body...), nil
	}
	start := len(dst)
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","object":`...)
	dst, err := codec.AppendObject(dst, obj, codec.JSON)
	if err != nil {
		return dst[:start], err
	}
	return append(dst[:len(dst)-1], "}\n"...), nil // without the object's own newline
}

func (f *framer) appendError(dst []byte, err error) []byte {
	status := StatusOf(err)
	if status.Code == http.StatusInternalServerError && status.Reason == "" {
		status.Reason = metav1.StatusReasonInternalError // as in watches of kube-apiserver; clients do not receive the HTTP status code
	}
	status.Kind, status.APIVersion = "Status", "v1"
	framed, failed := f.appendObject(dst, apiwatch.Error, status)
	if failed != nil {
		return dst
	}
	return framed
}

// frameLength is the size of the length prefix of a protobuf frame, in bytes.
const frameLength = 4

// appendFrameHead appends the beginning of a protobuf frame for an object of the given size. It consists of
// the frame length in four bytes, and the start of the WatchEvent message {type = 1, object = 2 {raw = 1}}.
func appendFrameHead(dst []byte, kind apiwatch.EventType, size int) []byte {
	raw := fieldSize(size)
	frame := fieldSize(len(kind)) + fieldSize(raw)
	dst = binary.BigEndian.AppendUint32(dst, uint32(frame))
	dst = append(dst, 1<<3|2)
	dst = binary.AppendUvarint(dst, uint64(len(kind)))
	dst = append(dst, kind...)
	dst = append(dst, 2<<3|2)
	dst = binary.AppendUvarint(dst, uint64(raw))
	dst = append(dst, 1<<3|2)
	return binary.AppendUvarint(dst, uint64(size))
}
