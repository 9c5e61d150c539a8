package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventHead precedes the fields of a single event. Events in a list have no kind and apiVersion.
const eventHead = `{"kind":"Event","apiVersion":"` + APIVersion + `",`

// encoded is an event and its JSON encoding. All backends share it.
type encoded struct {
	event *Event
	line  []byte // including eventHead and a newline
}

// item returns the encoding of the event as a list item, without the opening brace.
func (e *encoded) item() []byte { return e.line[len(eventHead) : len(e.line)-1] }

func encode(dst []byte, event *Event) encoded {
	return encoded{event, append(appendEvent(append(dst, eventHead...), event), '\n')}
}

// Body converts a request or response body to the form of Event.RequestObject, which is compact
// JSON in valid UTF-8. It returns nil if text is empty or not JSON. The result does not alias text.
func Body(text []byte) json.RawMessage {
	if len(text) == 0 {
		return nil
	}
	compact, err := json.Marshal(json.RawMessage(text))
	if err != nil {
		return nil
	}
	if !utf8.Valid(compact) {
		return bytes.ToValidUTF8(compact, []byte("\ufffd"))
	}
	return compact
}

// appendEvent appends the JSON encoding of an event, without the kind, the apiVersion and the opening brace.
// The result is the same as the output of encoding/json, which would take four times as long.
func appendEvent(dst []byte, e *Event) []byte {
	dst = appendString(append(dst, `"level":`...), string(e.Level))
	dst = appendString(append(dst, `,"auditID":`...), e.AuditID)
	dst = appendString(append(dst, `,"stage":`...), string(e.Stage))
	dst = appendString(append(dst, `,"requestURI":`...), e.RequestURI)
	dst = appendString(append(dst, `,"verb":`...), e.Verb)
	dst = appendUser(append(dst, `,"user":`...), &e.User)
	if e.ImpersonatedUser != nil {
		dst = appendUser(append(dst, `,"impersonatedUser":`...), e.ImpersonatedUser)
	}
	if e.AuthenticationMetadata != nil {
		o := object{dst: append(dst, `,"authenticationMetadata":{`...)}
		o.stringField("impersonationConstraint", e.AuthenticationMetadata.ImpersonationConstraint)
		dst = append(o.dst, '}')
	}
	if len(e.SourceIPs) > 0 {
		dst = appendStrings(append(dst, `,"sourceIPs":`...), e.SourceIPs)
	}
	if e.UserAgent != "" {
		dst = appendString(append(dst, `,"userAgent":`...), e.UserAgent)
	}
	if e.ObjectRef != nil {
		dst = appendReference(append(dst, `,"objectRef":`...), e.ObjectRef)
	}
	if e.ResponseStatus != nil {
		dst = appendStatus(append(dst, `,"responseStatus":`...), e.ResponseStatus)
	}
	if len(e.RequestObject) > 0 {
		dst = append(append(dst, `,"requestObject":`...), e.RequestObject...)
	}
	if len(e.ResponseObject) > 0 {
		dst = append(append(dst, `,"responseObject":`...), e.ResponseObject...)
	}
	dst = appendTime(append(dst, `,"requestReceivedTimestamp":`...), e.RequestReceivedTimestamp)
	dst = appendTime(append(dst, `,"stageTimestamp":`...), e.StageTimestamp)
	if len(e.Annotations) > 0 {
		dst = appendMap(append(dst, `,"annotations":`...), e.Annotations, appendString)
	}
	return append(dst, '}')
}

// object encodes the fields of a JSON object.
type object struct {
	dst       []byte
	hasFields bool
}

func (o *object) key(name string) {
	if o.hasFields {
		o.dst = append(o.dst, ',')
	}
	o.hasFields = true
	o.dst = append(append(append(o.dst, '"'), name...), '"', ':')
}

// stringField appends a field unless its value is empty.
func (o *object) stringField(name, value string) {
	if value != "" {
		o.key(name)
		o.dst = appendString(o.dst, value)
	}
}

func appendUser(dst []byte, u *User) []byte {
	o := object{dst: append(dst, '{')}
	o.stringField("username", u.Username)
	o.stringField("uid", u.UID)
	if len(u.Groups) > 0 {
		o.key("groups")
		o.dst = appendStrings(o.dst, u.Groups)
	}
	if len(u.Extra) > 0 {
		o.key("extra")
		o.dst = appendMap(o.dst, u.Extra, appendStrings)
	}
	return append(o.dst, '}')
}

func appendReference(dst []byte, r *ObjectReference) []byte {
	o := object{dst: append(dst, '{')}
	o.stringField("resource", r.Resource)
	o.stringField("namespace", r.Namespace)
	o.stringField("name", r.Name)
	o.stringField("uid", r.UID)
	o.stringField("apiGroup", r.APIGroup)
	o.stringField("apiVersion", r.APIVersion)
	o.stringField("resourceVersion", r.ResourceVersion)
	o.stringField("subresource", r.Subresource)
	return append(o.dst, '}')
}

// appendStatus appends the status of a response. There is a fast path for a status that contains
// only a code, which is the usual case.
func appendStatus(dst []byte, status *metav1.Status) []byte {
	if *status == (metav1.Status{Code: status.Code}) && status.Code != 0 {
		dst = strconv.AppendInt(append(dst, `{"metadata":{},"code":`...), int64(status.Code), 10)
		return append(dst, '}')
	}
	text, err := json.Marshal(status)
	if err != nil {
		return append(dst, "null"...) // cannot happen, because a Status can always be encoded
	}
	return append(dst, text...)
}

func appendTime(dst []byte, t metav1.MicroTime) []byte {
	if t.IsZero() {
		return append(dst, "null"...)
	}
	return t.UTC().AppendFormat(dst, `"`+metav1.RFC3339Micro+`"`)
}

// appendMap appends a map as a JSON object with sorted keys.
func appendMap[T any](dst []byte, m map[string]T, appendValue func([]byte, T) []byte) []byte {
	var few [8]string
	keys := few[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendValue(append(appendString(dst, key), ':'), m[key])
	}
	return append(dst, '}')
}

func appendStrings(dst []byte, list []string) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

// appendString appends a string in the same encoding as encoding/json. A string without special
// characters is copied directly.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return appendEscaped(dst, s)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendEscaped(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return append(dst, `""`...) // cannot happen, because a string can always be encoded
	}
	return append(dst, text...)
}

// AppendLegacy appends some fields of the event in the "legacy" format of the audit log, which is a
// line of text. It does not append a newline. It returns the extended slice.
func AppendLegacy(dst []byte, e *Event) []byte {
	user, groups := "<none>", "<none>"
	if e.User.Username != "" {
		user = e.User.Username
		if len(e.User.Groups) > 0 {
			groups = quoted(e.User.Groups)
		}
	}
	as, asGroups := "<self>", "<lookup>"
	if e.ImpersonatedUser != nil {
		as = e.ImpersonatedUser.Username
		if e.ImpersonatedUser.Groups != nil {
			asGroups = quoted(e.ImpersonatedUser.Groups)
		}
	}
	namespace, response, ip := "<none>", "<deferred>", "<unknown>"
	if e.ObjectRef != nil && e.ObjectRef.Namespace != "" {
		namespace = e.ObjectRef.Namespace
	}
	if e.ResponseStatus != nil {
		response = strconv.Itoa(int(e.ResponseStatus.Code))
	}
	if len(e.SourceIPs) > 0 {
		ip = e.SourceIPs[0]
	}
	dst = e.RequestReceivedTimestamp.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, " AUDIT:"...)
	for _, field := range [...]struct{ name, value string }{
		{"id", e.AuditID}, {"stage", string(e.Stage)}, {"ip", ip}, {"method", e.Verb}, {"user", user}, {"groups", groups}, {"as", as},
		{"asgroups", asGroups}, {"user-agent", e.UserAgent}, {"namespace", namespace}, {"uri", e.RequestURI}, {"response", response},
	} {
		dst = append(append(append(dst, ' '), field.name...), '=')
		dst = strconv.AppendQuote(dst, field.value)
	}
	return dst
}

func quoted(list []string) string {
	var dst []byte
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendQuote(dst, s)
	}
	return string(dst)
}
