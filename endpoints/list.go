package endpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/processor"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
	"mainstay.dev/mainstay/telemetry"
)

// list answers GET of a collection.
func (c *call) list(s rest.Lister) error {
	t, err := c.negotiate(forList)
	if err != nil {
		return err
	}
	options, _, err := c.listOptions()
	if err != nil {
		return err
	}
	list, err := c.visibleList(s, options)
	if err != nil {
		return err
	}
	telemetry.Step(c.r.Context(), "opened list")
	return c.respondList(t, list, options.Limit > 0 || options.Continue != "")
}

// visibleList lists the objects that the user may see. Each turn takes a change of
// the user's rights.
func (c *call) visibleList(s rest.Lister, options rest.ListOptions) (*rest.List, error) {
	ctx := c.r.Context()
	view := request.VisibilityFrom(ctx)
	if view == nil {
		return s.List(ctx, c.namespace(), options)
	}
	for {
		options.Namespaces = view.Now()
		list, err := s.List(ctx, "", options)
		if err != nil || view.Listed(options.Namespaces, list.Revision) {
			return list, err
		}
	}
}

// respondList answers with many objects. A list that is not a page streams: it
// is never held as a whole, however long it is. A page is gathered first, as
// what follows it stands at its beginning.
func (c *call) respondList(t target, list *rest.List, page bool) error {
	list.Items = c.inTurns(list.Items)
	switch t.view {
	case table:
		return c.respondTable(t, list)
	case partialList:
		return c.respondPartialList(t, list)
	}
	// What others convert may fail, and is told before the first byte is sent.
	asks := c.resource.Kind != nil && c.resource.Kind.Convert != nil
	if page || asks || t.media == codec.Protobuf {
		records, err := gather(list)
		if err != nil {
			return err
		}
		if t.media == codec.Protobuf {
			c.auditList(list, records)
			return c.respondProtobufList(t, list, records)
		}
		list.Items = c.inTurns(each(records))
	}
	if t.media == codec.YAML || t.pretty {
		return c.respondWholeList(t, list)
	}
	return c.streamJSONList(list)
}

// listTypeName is how kube-apiserver's messages name a list's type.
func (c *call) listTypeName() string {
	group := c.resource.GroupVersion.Group
	if group == "" {
		group = "core"
	}
	return fmt.Sprintf("*%s.%sList", group, c.resource.Version.GVK.Kind)
}

func notOfList(t target, resource *rest.Resource) error {
	group := resource.GroupVersion.Group
	if group == "" {
		group = "core"
	}
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)", group, resource.Version.GVK.Kind)
}

func gather(list *rest.List) ([]*codec.Record, error) {
	var records []*codec.Record
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	return records, nil
}

func each(records []*codec.Record) func(func(*codec.Record, error) bool) {
	return func(yield func(*codec.Record, error) bool) {
		for _, record := range records {
			if !yield(record, nil) {
				return
			}
		}
	}
}

const (
	// fewItems are as many as a list may have that needs no turn.
	fewItems = 32
	// someItems are as many as a list goes through before it looks whether to give way.
	someItems = 8
)

// inTurns has a request have its turn while it goes through many items.
func (c *call) inTurns(items iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		n := 0
		for record, err := range items {
			c.takeTurn(n)
			n++
			if !yield(record, err) {
				return
			}
		}
	}
}

// takeTurn waits for the turn of a list that is long, or gives way if it lasts; n items
// were before.
func (c *call) takeTurn(n int) {
	if n < fewItems || n%someItems > 0 {
		return
	}
	c.beginTurn(processor.Bulk)
	c.turn.GiveWay()
}

// beginTurn waits for a turn, among those of all users.
func (c *call) beginTurn(kind processor.Kind) {
	name := ""
	if user := request.UserFrom(c.r.Context()); user != nil {
		name = user.Name
	}
	c.api.config.Turns.Begin(c.turn, kind, name)
}

// listMeta is what a list says of itself.
func listMeta(list *rest.List) metav1.ListMeta {
	meta := metav1.ListMeta{Continue: list.Continue, RemainingItemCount: list.Remaining}
	if list.Revision != 0 {
		meta.ResourceVersion = strconv.FormatInt(list.Revision, 10)
	}
	return meta
}

// appendListHead appends a list's JSON up to its first item.
func (c *call) appendListHead(dst []byte, list *rest.List) ([]byte, error) {
	meta, err := json.Marshal(listMeta(list))
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	dst = append(dst, codec.JSONHead(c.resource.Version.ListKind())...)
	dst = append(dst, `"metadata":`...)
	if c.resource.Version.Untyped && list.Continue == "" && list.Revision != 0 {
		// As kube-apiserver, whose lists of documents always say it.
		dst, meta = append(dst, `{"continue":"",`...), meta[1:]
	}
	dst = append(dst, meta...)
	return append(dst, `,"items":[`...), nil
}

const listFoot = "]}\n"

// itemWriter appends items to a JSON list.
type itemWriter struct {
	version *codec.Version
	head    []byte // what precedes an item's tail
	count   int
}

// newItemWriter: items of typed kinds do not repeat their type, as Go clients'
// list types have it; items of untyped kinds do.
func newItemWriter(v *codec.Version) *itemWriter {
	w := &itemWriter{version: v, head: []byte("{")}
	if v.Untyped {
		w.head = codec.JSONHead(v.GVK)
	}
	return w
}

func (w *itemWriter) append(dst []byte, record *codec.Record) ([]byte, error) {
	if w.count > 0 {
		dst = append(dst, ',')
	}
	w.count++
	return record.AppendJSONTail(append(dst, w.head...), w.version)
}

// chunk is how much of a list is written at a time: large enough to fill TLS
// records and HTTP/2 frames, small enough to be nothing beside the list.
const chunk = 128 << 10

//nolint:gochecknoglobals // a pool of buffers has no state that one server could see of another
var chunkPool = sync.Pool{New: func() any { b := make([]byte, 0, chunk+chunk/2); return &b }}

// streamJSONList writes items as they come.
func (c *call) streamJSONList(list *rest.List) error {
	pooled := chunkPool.Get().(*[]byte)
	defer func() { chunkPool.Put(pooled) }()
	buf, err := c.appendListHead((*pooled)[:0], list)
	if err != nil {
		return err
	}
	out := &bodyWriter{w: c.w, r: c.r, turn: c.turn, mediaType: codec.JSONType, code: http.StatusOK, length: unknownLength, audit: newAuditedBody(c.r)}
	defer out.release()
	items := newItemWriter(c.resource.Version)
	for record, err := range list.Items {
		if err == nil {
			buf, err = items.append(buf, record)
		}
		if err != nil {
			return out.fail(err)
		}
		if len(buf) >= chunk {
			if err := out.write(buf); err != nil {
				return out.fail(err)
			}
			buf = buf[:0]
		}
	}
	buf = append(buf, listFoot...)
	if err := out.finish(buf); err != nil {
		return out.fail(err)
	}
	if cap(buf) <= 4*chunk {
		*pooled = buf[:0]
	}
	return nil
}

// appendList appends a list as JSON. From limit on no more items are added.
func (c *call) appendList(dst []byte, list *rest.List, limit int) ([]byte, error) {
	dst, err := c.appendListHead(dst, list)
	if err != nil {
		return nil, err
	}
	items := newItemWriter(c.resource.Version)
	for record, err := range list.Items {
		if err == nil {
			dst, err = items.append(dst, record)
		}
		if err != nil {
			return nil, err
		}
		if len(dst) > limit {
			break
		}
	}
	return append(dst, listFoot...), nil
}

// respondWholeList is for forms that people read: they need the whole text.
func (c *call) respondWholeList(t target, list *rest.List) error {
	buf, err := c.appendList(nil, list, math.MaxInt)
	if err != nil {
		return err
	}
	if t.media == codec.YAML {
		if buf, err = yaml.JSONToYAML(bytes.TrimSpace(buf)); err != nil {
			return fmt.Errorf("encode list as YAML: %w", err)
		}
	}
	writeBody(c.w, c.r, t, http.StatusOK, buf)
	return nil
}
