package endpoints

import (
	"mime"
	"net/http"
	"sort"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
)

// view is the representation of objects that a client requests.
type view uint8

const (
	// whole is the complete object.
	whole view = iota
	// table is a Table, which kubectl prints.
	table
	// partial is a PartialObjectMetadata, and partialList is a PartialObjectMetadataList.
	partial
	partialList
)

// target is the requested form of a response.
type target struct {
	media codec.Media
	view  view
	// viewVersion is the API version of a table or partial metadata.
	viewVersion schema.GroupVersion
	pretty      bool
}

// Kinds of responses. They determine which views a client can request.
const (
	forObject = iota
	forList
	forWatch
	// forError is for a Status, which is always sent as a complete object, regardless of the requested
	// view.
	forError
)

const acceptedTypes = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

// acceptClause is one media range of an Accept header.
type acceptClause struct {
	mediaType string
	params    map[string]string
	quality   float64
}

// supportedForms specifies which forms of objects are available, in addition to JSON and YAML. If a form is
// not available, the client's next choice applies.
type supportedForms struct {
	// protobuf reports whether whole objects have a protobuf form.
	protobuf bool
	table    bool
}

// negotiate parses the Accept header of a request for the resource. Handlers call it before they change
// anything, so that a request with an unacceptable header has no side effects.
func (c *call) negotiate(purpose int) (target, error) {
	t, err := negotiateAmong(c.r, purpose, supportedForms{protobuf: !c.resource.Version.Untyped, table: !c.resource.WithoutTable})
	if err != nil {
		return t, err
	}
	return t, c.checkView(t, purpose)
}

// checkView rejects an unsupported view.
func (c *call) checkView(t target, purpose int) error {
	switch {
	case t.view == partialList && purpose != forList:
		return errNotList(t, c.resource)
	case t.view == partial && purpose == forList:
		return statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested PartialObjectMetadata, but the requested object is a list (%s)", c.listTypeName())
	case t.view == table:
		_, err := c.includeObject()
		return err
	}
	return nil
}

// negotiate parses the Accept header of a request for objects with all forms.
func negotiate(r *http.Request, purpose int) (target, error) {
	return negotiateAmong(r, purpose, supportedForms{protobuf: true, table: true})
}

// negotiateAmong returns the first choice of the Accept header that is among the supported forms.
// The error is a 406.
func negotiateAmong(r *http.Request, purpose int, has supportedForms) (target, error) {
	pretty := requestsPretty(r)
	header := r.Header.Get("Accept")
	if values := r.Header.Values("Accept"); len(values) > 1 {
		header = strings.Join(values, ",")
	}
	if strings.TrimSpace(header) == "" || header == "*/*" || header == codec.JSONType {
		return target{pretty: pretty}, nil
	}
	known := false
	for _, c := range parseAccept(header) {
		if purpose == forError && c.params["as"] != "" {
			continue
		}
		media, ok := mediaOf(c.mediaType)
		if !ok || purpose == forWatch && media == codec.YAML {
			continue
		}
		known = true
		t := target{media: media, pretty: pretty}
		if pp, ok := c.params["pretty"]; ok {
			t.pretty = pp == "1" || pp == "true"
		}
		if t.setView(c.params) && has.allow(t) {
			return t, nil
		}
	}
	return target{}, notAcceptable(known, purpose)
}

// allow reports whether objects are available in the form that t requires.
func (f supportedForms) allow(t target) bool {
	switch t.view {
	case whole:
		return f.protobuf || t.media != codec.Protobuf
	case table:
		return f.table
	}
	return true
}

// setView sets the view from the parameters as, g and v of a media type. It reports whether they
// are supported.
func (t *target) setView(params map[string]string) bool {
	as := params["as"]
	if as == "" {
		return true
	}
	version := params["v"]
	if params["g"] != metav1.GroupName || version != "v1" && version != "v1beta1" {
		return false
	}
	t.viewVersion = schema.GroupVersion{Group: metav1.GroupName, Version: version}
	switch as {
	case "Table":
		t.view = table
		return t.media != codec.Protobuf
	case "PartialObjectMetadata":
		t.view = partial
	case "PartialObjectMetadataList":
		t.view = partialList
	default:
		return false
	}
	return true
}

func notAcceptable(known bool, purpose int) error {
	message := "only the following media types are accepted: " + acceptedTypes
	if !known {
		message = "406: Not Acceptable\n\nAvailable representations: " + acceptedTypes
		if purpose != forObject {
			message += ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
		}
	}
	refused := statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "%s", message)
	if !known {
		return detailed(refused)
	}
	return refused
}

func parseAccept(header string) []acceptClause {
	var clauses []acceptClause
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		c := acceptClause{mediaType: mediaType, params: params, quality: 1}
		if q, ok := params["q"]; ok {
			c.quality, err = strconv.ParseFloat(q, 64)
			if err != nil || c.quality <= 0 {
				continue
			}
		}
		clauses = append(clauses, c)
	}
	sort.SliceStable(clauses, func(i, j int) bool { return clauses[i].quality > clauses[j].quality })
	return clauses
}

func mediaOf(mediaType string) (codec.Media, bool) {
	switch mediaType {
	case codec.JSONType, "*/*", "text/json":
		return codec.JSON, mediaType != "text/json"
	case codec.YAMLType:
		return codec.YAML, true
	case codec.ProtobufType:
		return codec.Protobuf, true
	}
	return codec.JSON, false
}

// requestsPretty reports whether JSON is indented. The query parameter "pretty" determines this. Without
// it, JSON is indented for the user agents of browsers and command-line tools.
func requestsPretty(r *http.Request) bool {
	if strings.Contains(r.URL.RawQuery, "pretty=") {
		if value := r.URL.Query().Get("pretty"); value != "" {
			pretty, err := strconv.ParseBool(value)
			return err == nil && pretty
		}
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

// bodyMedia returns the media type of the object in a request body, from the Content-Type header. The error
// is a 415.
func bodyMedia(r *http.Request) (codec.Media, error) {
	header := r.Header.Get("Content-Type")
	if header == "" || header == codec.JSONType {
		return codec.JSON, nil
	}
	mediaType, _, err := mime.ParseMediaType(header)
	if err == nil && mediaType != "*/*" {
		if media, ok := mediaOf(mediaType); ok {
			return media, nil
		}
	}
	return codec.JSON, unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " + acceptedTypes)
}

func unsupportedMediaType(message string) error {
	return statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "%s", message)
}
