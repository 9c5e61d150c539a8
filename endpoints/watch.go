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

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
)

// watch answers a request to follow a collection. Each batch of events that is
// at hand goes out in one write.
func (c *call) watch(s rest.Watcher) error {
	f, err := c.follow(s)
	if err != nil {
		return err
	}
	defer f.close()
	if isWebSocket(c.r) {
		return c.serveWebSocket(f)
	}
	return c.streamEvents(f)
}

// following is a watch under way.
type following struct {
	rest.Watch
	ctx    context.Context // ends when the watch is to end
	cancel context.CancelFunc
	framer *framer
}

// follow begins a watch.
func (c *call) follow(s rest.Watcher) (*following, error) {
	t, err := c.negotiate(forWatch)
	if err != nil {
		return nil, err
	}
	options, raw, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	f := &following{}
	if f.framer, err = c.newFramer(t); err != nil {
		return nil, err
	}
	f.ctx, f.cancel = c.watchContext(raw.TimeoutSeconds)
	options.Visibility = request.VisibilityFrom(f.ctx)
	if f.Watch, err = s.Watch(f.ctx, c.namespace(), options); err != nil {
		f.end()
		return nil, err
	}
	return f, nil
}

// end ends what waits for the watch or with it.
func (f *following) end() {
	request.WatchInitialized(f.ctx) // at the latest: it may end before
	f.cancel()
}

func (f *following) close() {
	_ = f.Close()
	f.end()
}

// watchContext ends when the request does (the client is gone, the server stops)
// or its time is up.
func (c *call) watchContext(seconds *int64) (context.Context, context.CancelFunc) {
	timeout := c.api.config.MinWatchTimeout
	if seconds != nil && *seconds > 0 {
		timeout = time.Duration(*seconds) * time.Second
	} else {
		timeout += time.Duration(rand.Int64N(int64(timeout))) // spread the returns of many clients
	}
	return context.WithTimeout(c.r.Context(), timeout)
}

func (c *call) streamEvents(f *following) error {
	contentType := codec.JSONType
	if f.framer.target.media == codec.Protobuf {
		contentType = codec.ProtobufType + ";stream=watch"
	}
	flusher := http.NewResponseController(c.w)
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(http.StatusOK)
	if err := flusher.Flush(); err != nil {
		return nil // the client is gone
	}
	request.Release(c.r)
	for {
		events, err := f.Next(f.ctx)
		if done := c.sendEvents(f.framer, flusher, events, err); done {
			return nil
		}
	}
}

// eventPool has buffers for events on their way: a watch that waits holds none.
var eventPool = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// maxEventBuffer is the most that a buffer keeps between events.
const maxEventBuffer = 64 << 10

// sendEvents sends one batch; done tells that the watch has ended.
func (c *call) sendEvents(framer *framer, flusher *http.ResponseController, events []rest.Event, err error) (done bool) {
	pooled := eventPool.Get().(*[]byte)
	defer eventPool.Put(pooled)
	buf, done := framer.appendBatch((*pooled)[:0], events, err)
	if cap(buf) <= maxEventBuffer {
		*pooled = buf
	}
	if len(buf) == 0 {
		return done
	}
	if _, err := c.w.Write(buf); err != nil {
		return true // the client is gone
	}
	if err := flusher.Flush(); err != nil {
		return true
	}
	c.countEvents(len(events), len(buf))
	return done
}

func (c *call) countEvents(events, bytes int) {
	if c.api.config.OnWatchEvents != nil {
		c.api.config.OnWatchEvents(c.resource, events, bytes)
	}
}

// framer turns events into the bytes of a stream.
type framer struct {
	target  target
	version *codec.Version
	tables  *tableMaker
	// columnsSent: only the first table of a stream has columns.
	columnsSent bool
	head        []byte
}

func (c *call) newFramer(t target) (*framer, error) {
	v := c.resource.Version
	f := &framer{target: t, version: v, head: codec.JSONHead(v.GVK)}
	if t.view == table {
		m, err := c.tableMaker(t)
		if err != nil {
			return nil, err
		}
		f.tables = m
	}
	return f, nil
}

// appendBatch appends the frames of one batch; done tells that the stream ends
// with it. An error that the client should know of becomes its last event.
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

// append appends the frame of one event. Whole objects are copied from the
// encoding that all watchers share.
func (f *framer) append(dst []byte, event *rest.Event) ([]byte, error) {
	if event.Type == apiwatch.Bookmark || f.target.view != whole {
		return f.appendMade(dst, event)
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

// appendMade appends a frame whose object is made for this watcher.
func (f *framer) appendMade(dst []byte, event *rest.Event) ([]byte, error) {
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

// bookmark is an object with nothing but a revision (KEP-956), and, at the end
// of the initial events, the annotation that says so (KEP-3157).
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
	case table:
		made := f.tables.table(metav1.ListMeta{ResourceVersion: obj.GetResourceVersion()}, !f.columnsSent)
		f.columnsSent = true
		cells := make([]any, len(f.tables.convertor.Columns()))
		for i := range cells {
			cells[i] = ""
		}
		made.Rows = append(made.Rows, metav1.TableRow{Cells: cells,
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
		status.Reason = metav1.StatusReasonInternalError // as kube-apiserver's watches; clients see no code
	}
	status.Kind, status.APIVersion = "Status", "v1"
	framed, failed := f.appendObject(dst, apiwatch.Error, status)
	if failed != nil {
		return dst
	}
	return framed
}

// frameLength is how many bytes the length of a protobuf frame has.
const frameLength = 4

// appendFrameHead appends what precedes an object of the given size in a frame
// of a protobuf stream: the frame's length in four bytes, and the WatchEvent
// message {type = 1, object = 2 {raw = 1}}.
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
