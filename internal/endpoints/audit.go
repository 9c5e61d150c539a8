package endpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsontext"
	"mainstay.dev/mainstay/internal/request"
)

// maxAuditBody is the maximum size of a body in an audit event, in bytes. This server streams lists even if
// they are audited, whereas kube-apiserver buffers whole lists.
const maxAuditBody = 10 << 20

// auditObject records the object that a client sent.
func (c *call) auditObject(obj codec.Object, media codec.Media, body []byte) {
	a := request.AuditFrom(c.r.Context())
	if a == nil {
		return
	}
	a.SetObject(request.AuditObject{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion(),
	})
	c.auditRequest(obj, media, body)
}

// auditRequest records the body of a request. It records JSON as sent, and converts other media types to
// JSON. Most clients apply JSON, although the media type is YAML.
func (c *call) auditRequest(obj runtime.Object, media codec.Media, body []byte) {
	a := request.AuditFrom(c.r.Context())
	if !a.RecordsRequestBody() {
		return
	}
	var err error
	switch {
	case media == codec.YAML && !json.Valid(body):
		body, err = yaml.YAMLToJSON(body)
	case media == codec.Protobuf:
		body, err = codec.AppendObject(nil, obj, codec.JSON)
	}
	if err == nil {
		recordBody(a, body, a.SetRequestBody)
	}
}

// auditRequestObject records the request object of a write by code of the server itself.
func (o *operation) auditRequestObject(ctx context.Context, obj codec.Object) {
	a := request.AuditFrom(ctx)
	if a == nil {
		return
	}
	a.SetObject(request.AuditObject{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()), ResourceVersion: obj.GetResourceVersion(),
	})
	auditRequestBody(ctx, obj)
}

// auditRequestBody records an object, or the options of a deletion, as the request body of a call by server
// code.
func auditRequestBody(ctx context.Context, obj runtime.Object) {
	a := request.AuditFrom(ctx)
	if !a.RecordsRequestBody() {
		return
	}
	if body, err := codec.AppendObject(nil, obj, codec.JSON); err == nil {
		recordBody(a, bytes.TrimSpace(body), a.SetRequestBody)
	}
}

// auditResponseObject records the object that server code receives as a response. record may be nil.
func (o *operation) auditResponseObject(ctx context.Context, record *codec.Record) {
	a := request.AuditFrom(ctx)
	if record == nil || !a.RecordsResponseBody() {
		return
	}
	v := o.resource.Version
	if body, err := record.AppendJSONTail(codec.JSONHead(v.GVK), v); err == nil {
		recordBody(a, body, a.SetResponseBody)
	}
}

// recordBody passes a JSON body to set. If the body exceeds maxAuditBody, recordBody marks the audit event
// as truncated instead.
func recordBody(a *request.Audit, body []byte, set func([]byte)) {
	if len(body) > maxAuditBody {
		a.SetTruncated()
		return
	}
	if a.OmitManagedFields {
		body = withoutManagedFields(body)
	}
	set(body)
}

// auditResponse records a complete response body. It ignores protobuf bodies, which auditProtobuf records.
func auditResponse(r *http.Request, media codec.Media, body []byte) {
	a := request.AuditFrom(r.Context())
	if !a.RecordsResponseBody() || media == codec.Protobuf {
		return
	}
	if media == codec.YAML {
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return
		}
	}
	recordBody(a, body, a.SetResponseBody)
}

// auditProtobuf records a protobuf response as JSON. encode encodes the object of the response for a
// target.
func auditProtobuf(r *http.Request, t target, encode func(target) ([]byte, error)) {
	if a := request.AuditFrom(r.Context()); t.media == codec.Protobuf && a.RecordsResponseBody() {
		t.media = codec.JSON
		if body, err := encode(t); err == nil {
			recordBody(a, body, a.SetResponseBody)
		}
	}
}

// auditList records a list that is sent as protobuf.
func (c *call) auditList(form *listForm, records []*codec.Record) {
	body, separator := newAuditedBody(c.r), []byte("[")
	body.write(form.head)
	for _, record := range records {
		item, err := form.item(separator, record)
		if err != nil {
			return
		}
		if body.write(item); body.audit == nil {
			return // the list exceeds maxAuditBody
		}
		separator = []byte(",")
	}
	if len(records) == 0 {
		body.write([]byte("["))
	}
	body.write([]byte("]" + foot))
	body.end()
}

// auditedBody collects a response that is sent in pieces.
type auditedBody struct {
	audit *request.Audit
	text  []byte
}

// newAuditedBody returns nil if the response is not recorded. All methods of a nil auditedBody do
// nothing.
func newAuditedBody(r *http.Request) *auditedBody {
	if a := request.AuditFrom(r.Context()); a.RecordsResponseBody() {
		return &auditedBody{audit: a}
	}
	return nil
}

// write appends a copy of piece. If the body exceeds maxAuditBody, it drops the body and marks the audit
// event as truncated.
func (b *auditedBody) write(piece []byte) {
	switch {
	case b == nil || b.audit == nil:
	case len(b.text)+len(piece) > maxAuditBody:
		b.audit.SetTruncated()
		b.audit, b.text = nil, nil
	default:
		b.text = append(b.text, piece...)
	}
}

// end records the body.
func (b *auditedBody) end() {
	if b != nil && b.audit != nil {
		recordBody(b.audit, b.text, b.audit.SetResponseBody)
	}
}

// auditStatus records that the response is a Status.
func auditStatus(r *http.Request, obj runtime.Object) {
	if status, ok := obj.(*metav1.Status); ok {
		request.AuditFrom(r.Context()).SetResponseStatus(status)
	}
}

// withoutManagedFields returns a JSON object, list or table without the objects' managed fields.
// Text that is not JSON is returned unchanged.
func withoutManagedFields(text []byte) []byte {
	begin := jsontext.Space(text, 0)
	if !json.Valid(text) || text[begin] != '{' {
		return text
	}
	c := fieldCutter{text: text}
	members(text, begin, func(m member) {
		switch m.name {
		case "metadata":
			c.metadata(m.value)
		case "items":
			elements(text, m.value, c.object)
		case "rows":
			elements(text, m.value, func(row int) {
				members(text, row, func(m member) {
					if m.name == "object" {
						c.object(m.value)
					}
				})
			})
		}
	})
	return c.rest()
}

// fieldCutter removes the managed fields from a JSON text.
type fieldCutter struct {
	text []byte
	cuts []cut // in ascending order
}

type cut struct{ begin, end int }

// object cuts the managed fields of the object at i.
func (c *fieldCutter) object(i int) {
	members(c.text, i, func(m member) {
		if m.name == "metadata" {
			c.metadata(m.value)
		}
	})
}

func (c *fieldCutter) metadata(i int) {
	kept := i + 1 // the end of the retained text
	members(c.text, i, func(m member) {
		if m.name != "managedFields" {
			kept = m.end
			return
		}
		out := cut{m.begin, m.end}
		if after := jsontext.Space(c.text, m.end); c.text[after] == ',' {
			out.end = jsontext.Space(c.text, after+1)
		} else {
			out.begin = kept // with the comma before it
		}
		for len(c.cuts) > 0 && c.cuts[len(c.cuts)-1].begin >= out.begin {
			c.cuts = c.cuts[:len(c.cuts)-1]
		}
		c.cuts = append(c.cuts, out)
	})
}

// rest returns the remaining text.
func (c *fieldCutter) rest() []byte {
	if len(c.cuts) == 0 {
		return c.text
	}
	var left []byte
	at := 0
	for _, out := range c.cuts {
		left = append(left, c.text[at:out.begin]...)
		at = out.end
	}
	return append(left, c.text[at:]...)
}

// member is a member of a JSON object. begin and end are the positions of the member in the text, and value
// is the position of its value.
type member struct {
	name              string
	begin, value, end int
}

// members calls f with each member of the object at i. It does nothing if the value at i is not an object.
func members(text []byte, i int, f func(member)) {
	if text[i] != '{' {
		return
	}
	for i = jsontext.Space(text, i+1); text[i] != '}'; {
		m := member{begin: i}
		end := jsontext.Skip(text, i)
		m.name = jsontext.Unquote(text[i:end])
		m.value = jsontext.Space(text, jsontext.Space(text, end)+1)
		m.end = jsontext.Skip(text, m.value)
		f(m)
		i = jsontext.Next(text, m.end)
	}
}

// elements calls f with the position of each element of the array at i.
func elements(text []byte, i int, f func(int)) {
	if text[i] != '[' {
		return
	}
	for i = jsontext.Space(text, i+1); text[i] != ']'; {
		f(i)
		i = jsontext.Next(text, jsontext.Skip(text, i))
	}
}
