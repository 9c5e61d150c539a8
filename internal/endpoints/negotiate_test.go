package endpoints_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/endpoints"
)

const (
	available      = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	availableLists = available + ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
	accepted       = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	jsonType       = "application/json"
	yamlType       = "application/yaml"
	protobufType   = "application/vnd.kubernetes.protobuf"
)

// TestAccept checks the responses to Accept headers, for an object and for a list. An expected value that
// is not a media type is the message of a 406.
func TestAccept(t *testing.T) {
	t.Parallel()
	view := func(media, as, version string) string {
		return fmt.Sprintf("%s;as=%s;v=%s;g=meta.k8s.io", media, as, version)
	}
	const isList = "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
	const isObject = "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for _, test := range []struct{ accept, object, objectKind, list, listKind string }{
		{"", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"*/*", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"application/json", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"application/json;charset=utf-8", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"application/json;stream=watch", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"application/json;pretty=1", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"APPLICATION/JSON", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{"application/yaml", yamlType, "ConfigMap", yamlType, "ConfigMapList"},
		{"application/json;q=0.5,application/yaml;q=0.9", yamlType, "ConfigMap", yamlType, "ConfigMapList"},
		{"application/yaml,application/json", yamlType, "ConfigMap", yamlType, "ConfigMapList"},
		{"text/html, application/yaml;q=0.1", yamlType, "ConfigMap", yamlType, "ConfigMapList"},
		{"application/json;q=0,application/yaml;q=0.1", yamlType, "ConfigMap", yamlType, "ConfigMapList"},
		{protobufType, protobufType, "ConfigMap", protobufType, "ConfigMapList"},
		{"application/vnd.kubernetes.protobuf,application/json", protobufType, "ConfigMap", protobufType, "ConfigMapList"},
		{"text/html", available, "", availableLists, ""},
		{"application/xml", available, "", availableLists, ""},
		{"application/*", available, "", availableLists, ""},
		{"text/*", available, "", availableLists, ""},
		{"application/cbor", available, "", availableLists, ""},
		{"nonsense", available, "", availableLists, ""},
		{"application/json;q=0", available, "", availableLists, ""},
		{view(jsonType, "Table", "v1"), jsonType, "Table", jsonType, "Table"},
		{view(jsonType, "Table", "v1beta1"), jsonType, "Table", jsonType, "Table"},
		{view(yamlType, "Table", "v1"), yamlType, "Table", yamlType, "Table"},
		{view(jsonType, "Table", "v1") + ",application/json", jsonType, "Table", jsonType, "Table"},
		{view(protobufType, "Table", "v1") + ",application/json", jsonType, "ConfigMap", jsonType, "ConfigMapList"},
		{view(jsonType, "Table", "v2"), accepted, "", accepted, ""},
		{view(jsonType, "Nope", "v1"), accepted, "", accepted, ""},
		{view(protobufType, "Table", "v1"), accepted, "", accepted, ""},
		{"application/json;as=Table;v=v1;g=nope", accepted, "", accepted, ""},
		{"application/json;as=Table", accepted, "", accepted, ""},
		{view(jsonType, "PartialObjectMetadata", "v1"), jsonType, "PartialObjectMetadata", isList, ""},
		{view(protobufType, "PartialObjectMetadata", "v1"), protobufType, "PartialObjectMetadata", isList, ""},
		{view(yamlType, "PartialObjectMetadata", "v1"), yamlType, "PartialObjectMetadata", isList, ""},
		{view(jsonType, "PartialObjectMetadataList", "v1"), isObject, "", jsonType, "PartialObjectMetadataList"},
		{view(protobufType, "PartialObjectMetadataList", "v1"), isObject, "", protobufType, "PartialObjectMetadataList"},
	} {
		t.Run(test.accept, func(t *testing.T) {
			t.Parallel()
			checkAccepted(t, a.do("GET "+inA+"configmaps/a", "", "Accept", test.accept), test.object, test.objectKind)
			checkAccepted(t, a.do("GET "+inA+"configmaps", "", "Accept", test.accept), test.list, test.listKind)
		})
	}
}

func checkAccepted(t *testing.T, got answer, want, kind string) {
	t.Helper()
	if kind == "" {
		if status := got.status(); got.Code != http.StatusNotAcceptable || status.Message != want || status.Reason != metav1.StatusReasonNotAcceptable {
			t.Errorf("%d %s; want 406 %s", got.Code, status.Message, want)
		}
		return
	}
	if media := got.Header().Get("Content-Type"); got.Code != http.StatusOK || media != want {
		t.Fatalf("%d %s; want %s: %s", got.Code, media, want, got.Body)
	}
	if read := kindIn(t, got.Body.Bytes(), want); read != kind {
		t.Errorf("kind %s; want %s", read, kind)
	}
}

// kindIn reads the kind of a body in any media type.
func kindIn(t testing.TB, body []byte, media string) string {
	t.Helper()
	var meta metav1.TypeMeta
	if media == protobufType {
		var envelope runtime.Unknown
		rest, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
		if !ok {
			t.Fatalf("not protobuf: %.40q", body)
		}
		if err := envelope.Unmarshal(rest); err != nil {
			t.Fatal(err)
		}
		return envelope.Kind
	}
	if err := yaml.Unmarshal(body, &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Kind
}

// TestRejectedBeforeTheWrite checks that a request with an unacceptable response type is rejected
// before the write.
func TestRejectedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	a.must("POST "+inA+"pods", `{"metadata":{"name":"p"}}`)
	before := a.must("GET "+inA+"configmaps", "").Body.String() + a.must("GET "+inA+"pods", "").Body.String()
	for _, test := range []struct {
		line, body, contentType, accept string
		code                            int
	}{
		{"POST " + inA + "pods/p/eviction", `{"metadata":{"name":"p"}}`, jsonType, tableT, 406},
		{"POST " + inA + "pods/p/eviction", `{"metadata":{"name":"p"}}`, jsonType, listT, 406},
		{"POST " + inA + "configmaps", `{"metadata":{"name":"b"}}`, jsonType, listT, 406},
		{"POST " + inA + "configmaps?includeObject=Nope", `{"metadata":{"name":"b"}}`, jsonType, tableT, 400},
		{"PUT " + inA + "configmaps/a", `{"metadata":{"name":"a","labels":{"a":"b"}}}`, jsonType, listT, 406},
		{"PATCH " + inA + "configmaps/a", `{"metadata":{"labels":{"a":"b"}}}`, mergeT, listT, 406},
		{"PATCH " + inA + "configmaps/a?includeObject=Nope", `{"metadata":{"labels":{"a":"b"}}}`, mergeT, tableT, 400},
		{"DELETE " + inA + "configmaps/a", "", jsonType, listT, 406},
		{"DELETE " + inA + "configmaps", "", jsonType, partialT, 406},
		{"DELETE " + inA + "configmaps?includeObject=Nope", "", jsonType, tableT, 400},
	} {
		a.do(test.line, test.body, "Content-Type", test.contentType, "Accept", test.accept).want(test.code, "")
		if after := a.must("GET "+inA+"configmaps", "").Body.String() + a.must("GET "+inA+"pods", "").Body.String(); after != before {
			t.Fatalf("%s, %s: changed\n%s\n%s", test.line, test.accept, before, after)
		}
	}
	// The next media type in the Accept header applies, as with kubectl.
	got := a.must("POST "+inA+"pods/p/eviction", `{"metadata":{"name":"p"}}`, "Accept", tableT+","+jsonType)
	if got.status().Kind != "Status" {
		t.Errorf("evict the pod: response %s, want a Status", got.Body)
	}
}

func TestSeveralAcceptHeaders(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	got := a.do("GET "+inA+"configmaps/a", "", "Accept", "text/html", "Accept", yamlType)
	checkAccepted(t, got, yamlType, "ConfigMap")
}

// TestErrorsAreNegotiated checks that an error is sent in the requested media type, but never as a table.
func TestErrorsAreNegotiated(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for accept, want := range map[string]string{
		"": jsonType, yamlType: yamlType, protobufType: protobufType, tableT: jsonType, partialT: jsonType, "nonsense;": jsonType,
	} {
		got := a.do("GET "+inA+"configmaps/missing", "", "Accept", accept)
		wantCode := http.StatusNotFound
		if accept == "nonsense;" {
			wantCode = http.StatusNotAcceptable
		}
		if media := got.Header().Get("Content-Type"); got.Code != wantCode || media != want || kindIn(t, got.Body.Bytes(), media) != "Status" {
			t.Errorf("%q: %d %s; want %d %s: %s", accept, got.Code, media, wantCode, want, got.Body)
		}
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	const refused = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	a := newAPI(t, endpoints.Config{})
	for i, test := range []struct {
		contentType string
		code        int
		message     string
	}{
		{"text/plain", 415, refused}, {"application/xml", 415, refused}, {"application/x-www-form-urlencoded", 415, refused},
		{"nonsense", 415, refused}, {mergeT, 415, refused}, {"*/*", 415, refused}, {"application/cbor", 415, refused},
		{"application/json; charset=utf-8", 201, ""}, {"application/json;foo=bar", 201, ""}, {"APPLICATION/JSON", 201, ""},
		{"", 201, ""}, {"application/yaml", 201, ""},
		{protobufType + ";stream=watch", 400, `the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({"apiVersion":"v1","kind":"Con ...)`},
	} {
		t.Run(test.contentType, func(t *testing.T) {
			t.Parallel()
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"}}`, i)
			headers := []string{"Content-Type", test.contentType}
			if test.contentType == "" {
				headers = nil
			}
			got := a.do("POST "+inA+"configmaps", body, headers...)
			got.t = t
			got.want(test.code, test.message)
		})
	}
}

func TestPatchContentTypes(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	a.must("POST /apis/example.com/v1/namespaces/a/widgets", `{"metadata":{"name":"w"}}`)
	for _, contentType := range []string{"", jsonType, "text/plain", "application/json-patch", "application/merge-patch+yaml",
		"application/strategic-merge-patch+yaml", "application/apply-patch+json", "application/apply-patch+cbor"} {
		got := a.do("PATCH "+inA+"configmaps/a", `{}`, "Content-Type", contentType)
		got.want(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
		if !strings.Contains(got.Body.String(), `"details":{}`) {
			t.Errorf("%s: no empty details in %s", contentType, got.Body)
		}
	}
	// Objects without Go types have no strategic merge.
	a.do("PATCH /apis/example.com/v1/namespaces/a/widgets/w", `{}`, "Content-Type", smpT).want(415,
		"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml")
	a.must("PATCH /apis/example.com/v1/namespaces/a/widgets/w", `{}`, "Content-Type", mergeT)
}

func TestPretty(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for _, test := range []struct {
		query   string
		headers []string
		pretty  bool
	}{
		{"", nil, false},
		{"?pretty=1", nil, true},
		{"?pretty=true", nil, true},
		{"?pretty=false", nil, false},
		{"?pretty=maybe", nil, false},
		{"", []string{"Accept", "application/json;pretty=1"}, true},
		{"?pretty=false", []string{"Accept", "application/json;pretty=1"}, true},
		{"", []string{"User-Agent", "curl/8"}, true},
		{"?pretty=false", []string{"User-Agent", "curl/8"}, false},
		{"", []string{"User-Agent", "Mozilla/5.0 (X11)"}, true},
		{"", []string{"User-Agent", "Wget/1"}, true},
		{"", []string{"User-Agent", "kubectl/1"}, false},
	} {
		for _, path := range []string{"configmaps", "configmaps/a", "configmaps/missing"} {
			r := newRequest("GET "+inA+path+test.query, nil)
			for i := 0; i+1 < len(test.headers); i += 2 {
				r.Header.Set(test.headers[i], test.headers[i+1])
			}
			got := a.send(r)
			if pretty := strings.Contains(got.Body.String(), "\n  \"kind\""); pretty != test.pretty {
				t.Errorf("%s %v: pretty %v: %.60s", test.query, test.headers, pretty, got.Body)
			}
			if !json.Valid(got.Body.Bytes()) || !strings.HasSuffix(got.Body.String(), "\n") {
				t.Errorf("%s %v: %.60s", test.query, test.headers, got.Body)
			}
		}
	}
}

func TestYAMLIsTheSameObject(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", `"k":"v: 1"`)
	for _, path := range []string{"configmaps/a", "configmaps"} {
		plain := a.must("GET "+inA+path, "")
		asYAML := a.must("GET "+inA+path, "", "Accept", yamlType)
		converted, err := yaml.YAMLToJSON(asYAML.Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var x, y any
		if json.Unmarshal(plain.Body.Bytes(), &x) != nil || json.Unmarshal(converted, &y) != nil || fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("%s: JSON %s\nYAML %s", path, plain.Body, asYAML.Body)
		}
	}
	// The server also accepts YAML.
	a.must("DELETE "+inA+"configmaps/a", "")
	got := a.must("POST "+inA+"configmaps", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: z}\ndata: {a: &x b, c: *x}\n", "Content-Type", yamlType).configMap()
	if got.Data["c"] != "b" {
		t.Errorf("got %v", got.Data)
	}
}

func TestProtobufIsReadByClients(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	for i := range 300 {
		a.configMap(fmt.Sprintf("c%03d", i), fmt.Sprintf(`"k":"%s"`, strings.Repeat("x", i*8)))
	}
	got := a.must("GET "+inA+"configmaps", "", "Accept", protobufType)
	decoded, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), got.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	list := decoded.(*corev1.ConfigMapList)
	if len(list.Items) != 300 || list.ResourceVersion == "" || len(list.Items[299].Data["k"]) != 299*8 || list.Items[7].Name != "c007" {
		t.Errorf("%d items at %q", len(list.Items), list.ResourceVersion)
	}
	if length := got.Header().Get("Content-Length"); length != fmt.Sprint(got.Body.Len()) {
		t.Errorf("Content-Length %s of %d bytes", length, got.Body.Len())
	}
	page := a.must("GET "+inA+"configmaps?limit=10", "", "Accept", protobufType)
	if decoded, err = runtime.Decode(scheme.Codecs.UniversalDeserializer(), page.Body.Bytes()); err != nil {
		t.Fatal(err)
	}
	if list := decoded.(*corev1.ConfigMapList); len(list.Items) != 10 || list.Continue == "" || list.RemainingItemCount == nil || *list.RemainingItemCount != 290 {
		t.Errorf("page of %d items, %+v", len(list.Items), list.ListMeta)
	}
	// Send an object as protobuf.
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: map[string]string{"a": "b"}}
	body := encodeProtobuf(t, c)
	a.must("POST "+inA+"configmaps", body, "Content-Type", protobufType)
	if got := a.must("GET "+inA+"configmaps/p", "").configMap(); got.Data["a"] != "b" {
		t.Errorf("stored %v", got.Data)
	}
}

func TestUntypedHasNoProtobuf(t *testing.T) {
	t.Parallel()
	const path = "/apis/example.com/v1/namespaces/a/widgets"
	a := newAPI(t, endpoints.Config{})
	a.must("POST "+path, `{"metadata":{"name":"w"},"spec":{"size":3,"ratio":1.5}}`)
	for _, line := range []string{"GET " + path + "/w", "GET " + path, "GET " + path + "?watch=1&timeoutSeconds=1"} {
		got := a.do(line, "", "Accept", protobufType)
		if got.Code != http.StatusNotAcceptable {
			t.Errorf("%s: %d %.60q; want 406", line, got.Code, got.Body)
		}
	}
	for _, accept := range []string{protobufType + ",application/json", jsonType} {
		got := a.must("GET "+path+"/w", "", "Accept", accept)
		if !strings.HasPrefix(got.Body.String(), `{"kind":"Widget","apiVersion":"example.com/v1",`) && !strings.HasPrefix(got.Body.String(), `{"apiVersion":"example.com/v1","kind":"Widget",`) {
			t.Errorf("Accept %s: body %s, want the Widget as JSON", accept, got.Body)
		}
	}
	a.do("POST "+path, encodeProtobuf(t, &corev1.ConfigMap{}), "Content-Type", protobufType).
		want(415, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml")
	// PartialObjectMetadata has a protobuf form for all objects.
	checkAccepted(t, a.do("GET "+path+"/w", "", "Accept", protobufType+";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"), protobufType, "PartialObjectMetadata")
}

// FuzzAccept checks that the media type of every response matches the Accept header, except for a
// 406.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "*/*", tableT, partialT, "application/json;q=0.1,application/yaml;q=x", ";;;=,,", `application/json;as="Table"`, "a/b;q=" + fmt.Sprint(math.NaN()), "application/yaml;pretty=1;pretty=2"} {
		f.Add(seed)
	}
	a := newAPI(f, endpoints.Config{})
	a.configMap("a", "")
	f.Fuzz(func(t *testing.T, accept string) {
		for _, path := range []string{"configmaps/a", "configmaps", "configmaps/missing"} {
			r := newRequest("GET "+inA+path, nil)
			r.Header["Accept"] = []string{accept}
			got := a.send(r)
			switch got.Code {
			case http.StatusOK, http.StatusNotFound:
				media := got.Header().Get("Content-Type")
				if kind := kindIn(t, got.Body.Bytes(), media); kind == "" {
					t.Errorf("%q: no kind in %s", accept, got.Body)
				}
			case http.StatusNotAcceptable:
			default:
				t.Errorf("Accept %q: %d %s", accept, got.Code, got.Body)
			}
		}
	})
}
