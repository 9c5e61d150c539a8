package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry"
)

// list handles GET of a collection.
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
	defer measureSerialization(c.r.Context())()
	return c.respondList(t, list, options.Limit > 0 || options.Continue != "")
}

// visibleList lists the objects that the user may see. It lists again if the user's permissions changed
// during the list.
func (c *call) visibleList(s rest.Lister, options rest.ListOptions) (*rest.List, error) {
	ctx := c.r.Context()
	view := request.VisibilityFrom(ctx)
	if view == nil {
		return s.List(ctx, c.namespace(), options)
	}
	for {
		options.Namespaces = view.Now()
		list, err := s.List(ctx, "", options)
		if err != nil || view.IsCurrent(options.Namespaces, list.Revision) {
			return list, err
		}
	}
}

// respondList responds with a list. It streams the response while it reads the list. A page is
// buffered, because the continue token precedes the items, but is known only after the last one.
func (c *call) respondList(t target, list *rest.List, page bool) error {
	list.Items = c.untilDone(list.Items)
	// A conversion may fail, so it precedes the first byte.
	asks := c.resource.Kind != nil && c.resource.Kind.Convert != nil
	if page || asks || t.media == codec.Protobuf {
		records, err := c.collectRecords(list, asks)
		if errors.Is(err, codec.ErrConverterUnreachable) {
			// kube-apiserver also rejects a list while it cannot fill its watch cache. Clients retry the
			// list.
			return apierrors.NewTooManyRequests("storage is (re)initializing", converterRetryAfter)
		}
		if err != nil {
			return err
		}
		list.Items = c.untilDone(recordSeq(records))
		if t.media == codec.Protobuf && t.view != table {
			return c.respondInProtobuf(t, list, records)
		}
	}
	if t.view == table {
		return c.respondTable(t, list)
	}
	form, err := c.listForm(t, list)
	if err != nil {
		return err
	}
	return c.streamList(t, list, form)
}

// respondInProtobuf responds with the objects of records, or their metadata.
func (c *call) respondInProtobuf(t target, list *rest.List, records []*codec.Record) error {
	if request.AuditFrom(c.r.Context()).RecordsResponseBody() {
		form, err := c.listForm(t, list)
		if err != nil {
			return err
		}
		c.auditList(form, records)
	}
	if t.view == partialList {
		return c.respondProtobufList(t, metadataList(t, list), records)
	}
	return c.respondProtobufList(t, c.wholeList(list), records)
}

// listForm returns the list of objects, or of their metadata, in JSON.
func (c *call) listForm(t target, list *rest.List) (*listForm, error) {
	if t.view == partialList {
		return partialForm(t, list)
	}
	head, err := c.appendListHead(nil, list)
	if err != nil {
		return nil, err
	}
	return &listForm{head: head, empty: "[]", item: newItemWriter(c.resource.Version).append}, nil
}

// listTypeName returns the name of the list's type in kube-apiserver's messages.
func (c *call) listTypeName() string {
	group := c.resource.GroupVersion.Group
	if group == "" {
		group = "core"
	}
	return fmt.Sprintf("*%s.%sList", group, c.resource.Version.GVK.Kind)
}

func errNotList(t target, resource *rest.Resource) error {
	group := resource.GroupVersion.Group
	if group == "" {
		group = "core"
	}
	return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"you requested PartialObjectMetadataList, but the requested object is not a list (*%s.%s)", group, resource.Version.GVK.Kind)
}

// collectRecords returns the records of a list. Records that no cache contains are counted against the
// memory limit of requests; converted records are never cached.
func (c *call) collectRecords(list *rest.List, converted bool) ([]*codec.Record, error) {
	var records []*codec.Record
	held := 0
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		records = append(records, record)
		if list.Uncached || converted {
			held += record.StoredSize()
			if err := c.reserveList(held); err != nil {
				return nil, err
			}
		}
	}
	return records, nil
}

// reserveList reserves memory for a list whose records occupy the given number of bytes so far. It returns an
// API error if no memory is available.
func (c *call) reserveList(bytes int) error {
	err := c.reserved.ReserveBody(c.r.Context(), bytes)
	if errors.Is(err, memory.ErrExhausted) {
		return apierrors.NewTooManyRequests("the server has no memory for a list of this size at present, please try again later, or list in pages", exhaustedRetryAfter)
	}
	return err
}

func recordSeq(records []*codec.Record) func(func(*codec.Record, error) bool) {
	return func(yield func(*codec.Record, error) bool) {
		for _, record := range records {
			if !yield(record, nil) {
				return
			}
		}
	}
}

// converterRetryAfter is the Retry-After, in seconds, of a list for which the conversion webhook is
// unreachable.
const converterRetryAfter = 1

// untilDone yields the items of a list until the context of the request ends, and then its error.
func (c *call) untilDone(items iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		for record, err := range items {
			if ended := c.r.Context().Err(); ended != nil && err == nil {
				record, err = nil, ended
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

// listMeta returns the metadata of a list.
func listMeta(list *rest.List) metav1.ListMeta {
	meta := metav1.ListMeta{Continue: list.Continue, RemainingItemCount: list.Remaining}
	if list.Revision != 0 {
		meta.ResourceVersion = strconv.FormatInt(list.Revision, 10)
	}
	return meta
}

// appendListHead appends a list's JSON up to the value of items.
func (c *call) appendListHead(dst []byte, list *rest.List) ([]byte, error) {
	meta, err := json.Marshal(listMeta(list))
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	dst = append(dst, codec.JSONHead(c.resource.Version.ListKind())...)
	dst = append(dst, `"metadata":`...)
	if c.resource.Version.Untyped && list.Continue == "" && list.Revision != 0 {
		// As in kube-apiserver, lists of custom resources always have the field continue.
		dst, meta = append(dst, `{"continue":"",`...), meta[1:]
	}
	dst = append(dst, meta...)
	return append(dst, `,"items":`...), nil
}

// itemWriter appends items of a JSON list.
type itemWriter struct {
	version *codec.Version
	head    []byte // the start of an item, up to the part that record.AppendJSONTail appends
}

// newItemWriter returns a writer for items of a version. As in kube-apiserver, items of typed kinds
// omit kind and apiVersion, and items of custom resources repeat them.
func newItemWriter(v *codec.Version) *itemWriter {
	w := &itemWriter{version: v, head: []byte("{")}
	if v.Untyped {
		w.head = codec.JSONHead(v.GVK)
	}
	return w
}

func (w *itemWriter) append(dst []byte, record *codec.Record) ([]byte, error) {
	return record.AppendJSONTail(append(dst, w.head...), w.version)
}
