package endpoints_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/endpoints"
)

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	a := newAPI(t, endpoints.Config{MaxBodyBytes: limit})
	a.configMap("a", "")
	filled := func(length int) string {
		body := `{"metadata":{"name":"big"},"data":{"k":""}}`
		return strings.Replace(body, `""`, `"`+strings.Repeat("x", length-len(body))+`"`, 1)
	}
	for _, test := range []struct {
		line, contentType string
		ok                int
	}{
		{"POST " + inA + "configmaps?dryRun=All", jsonType, 201},
		{"PUT " + inA + "configmaps/a", jsonType, 400}, // the name in the body differs from the name in the path
		{"PATCH " + inA + "configmaps/a", mergeT, 400},
		{"PATCH " + inA + "configmaps/a", smpT, 400},
		{"PATCH " + inA + "configmaps/a?fieldManager=m", applyT, 400},
		{"DELETE " + inA + "pods/none", jsonType, 404},
		{"DELETE " + inA + "pods", jsonType, 200},
	} {
		for _, sized := range []bool{true, false} {
			for _, length := range []int{limit, limit + 1, 100 * limit} {
				var body io.Reader = strings.NewReader(filled(length))
				if !sized {
					body = unsized{body}
				}
				r := newRequest(test.line, body)
				r.Header.Set("Content-Type", test.contentType)
				got := a.send(r)
				if length > limit {
					got.want(http.StatusRequestEntityTooLarge, "Request entity too large: limit is 1000")
				} else if got.Code != test.ok {
					t.Errorf("%s %s, %d bytes, sized %v: %d %s; want %d", test.line, test.contentType, length, sized, got.Code, got.Body, test.ok)
				}
			}
		}
	}
}

// cut is a body that ends before its declared length.
type cut struct{ io.Reader }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestBrokenBody(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	got := a.send(newRequest("POST "+inA+"configmaps", cut{strings.NewReader(`{"metadata":{"name":"a"}}`)}))
	got.want(http.StatusBadRequest, "the body of the request could not be read: unexpected EOF")
	r := newRequest("POST "+inA+"configmaps", strings.NewReader(`{"metadata":{"name":"a"}}`))
	r.ContentLength += 5
	a.send(r).want(http.StatusBadRequest, "the body of the request could not be read: unexpected EOF")
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	r = newRequest("POST "+inA+"configmaps", cut{strings.NewReader(`{"metadata":{"name":"a"}}`)})
	a.send(r.WithContext(late)).want(http.StatusGatewayTimeout, "Timeout: request did not complete within the allotted timeout")
	a.do("GET "+inA+"configmaps/a", "").want(404, "")
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	const prefix = "the object provided is unrecognized (must be of type ConfigMap): "
	a := newAPI(t, endpoints.Config{})
	for _, test := range []struct {
		body, contentType string
		code              int
		message           string
	}{
		{"", jsonType, 400, prefix + "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		{"{}", jsonType, 422, `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"null", jsonType, 422, `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"hello", jsonType, 400, prefix + "couldn't get version/kind; json parse error: invalid character 'h' looking for beginning of value (68656c6c6f)"},
		{`{"metadata":{"name":"t"}} {"x":1}`, jsonType, 400, prefix + `couldn't get version/kind; json parse error: invalid character '{' after top-level value ({"metadata":{"name":"t"}} {"x" ...)`},
		{`{"apiVersion":"a/b/c","kind":"ConfigMap"}`, jsonType, 400, prefix + `unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)`},
		{`{"metadata":{"name":"t"},"data":{"a":1}}`, jsonType, 400, `ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string`},
		{"apiVersion: v1\nkind: [ConfigMap\n", yamlType, 400, prefix + "yaml: line 2: did not find expected ',' or ']' (61706956657273696f6e3a2076310a6b696e643a205b436f6e6669674d61 ...)"},
		{"hello", protobufType, 400, prefix + "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (68656c6c6f)"},
		{"k8s\x00garbage", protobufType, 400, prefix + "proto: illegal wireType 7 (6b38730067617262616765)"},
		{`{"metadata":{"name":"t","namespace":"b"}}`, jsonType, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{`{"metadata":{"name":"t","namespace":"a"}}`, jsonType, 201, ""},
		{`{"kind":"ConfigMap","metadata":{"name":"t2"}}`, jsonType, 201, ""},
		{`{"apiVersion":"v1","metadata":{"name":"t3"}}`, jsonType, 201, ""},
		{`{"metadata":{"name":"t4"},"data":{"a":null}}`, jsonType, 201, ""},
	} {
		got := a.do("POST "+inA+"configmaps", test.body, "Content-Type", test.contentType)
		if got.Code != test.code {
			t.Errorf("create %q: code %d, want %d", test.body, got.Code, test.code)
		}
		got.want(test.code, test.message)
	}
	deep := `{"metadata":{"name":"d"},"x":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}"
	got := a.do("POST "+inA+"configmaps", deep)
	got.want(400, prefix+`couldn't get version/kind; json parse error: invalid character '[' exceeded max depth ({"metadata":{"name":"d"},"x":[ ...)`)
}

// TestNamespaceOfClusterScoped checks that all write methods remove the namespace of a
// cluster-scoped object.
func TestNamespaceOfClusterScoped(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	const body = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","namespace":"a","labels":{"%d":""}}}`
	for i, test := range []struct{ line, contentType string }{
		{"POST /api/v1/nodes", jsonType},
		{"PUT /api/v1/nodes/n", jsonType},
		{"PATCH /api/v1/nodes/n", mergeT},
		{"PATCH /api/v1/nodes/n", smpT},
		{"PATCH /api/v1/nodes/n?fieldManager=m&force=true", applyT},
		{"PATCH /api/v1/nodes/n?fieldManager=m", applyT}, // a no-op
		{"DELETE /api/v1/nodes/n", jsonType},
		{"PATCH /api/v1/nodes/n?fieldManager=m", applyT}, // creates
	} {
		sent := fmt.Sprintf(body, min(i, 4))
		if strings.HasPrefix(test.line, "DELETE") {
			sent = ""
		}
		got := a.must(test.line, sent, "Content-Type", test.contentType)
		if strings.Contains(got.Body.String(), "namespace") {
			t.Errorf("%s: response with a namespace: %s", test.line, got.Body)
		}
	}
}

// TestFieldValidation checks that unknown and duplicate fields are ignored, cause warnings or are rejected,
// for all write methods.
func TestFieldValidation(t *testing.T) {
	t.Parallel()
	const unknown, duplicate = `unknown field "nope"`, `duplicate field "data.k"`
	type want struct {
		code     int
		warnings []string
	}
	for _, test := range []struct {
		name, line, contentType, body string
		faults                        []string
		strict                        int
	}{
		{"create", "POST " + inA + "configmaps", jsonType, `{"metadata":{"name":"c"},"nope":1,"data":{"k":"1","k":"2"}}`, []string{unknown, duplicate}, 400},
		{"create, YAML", "POST " + inA + "configmaps", yamlType, "metadata: {name: c}\nnope: 1\n", []string{unknown}, 400},
		{"update", "PUT " + inA + "configmaps/a", jsonType, `{"metadata":{"name":"a"},"nope":1}`, []string{unknown}, 400},
		{"merge patch", "PATCH " + inA + "configmaps/a", mergeT, `{"nope":1}`, []string{unknown}, 422},
		{"merge patch, duplicate", "PATCH " + inA + "configmaps/a", mergeT, `{"data":{"k":"1","k":"2"}}`, []string{duplicate}, 422},
		{"merge patch, duplicate and unknown", "PATCH " + inA + "configmaps/a", mergeT, `{"data":{"k":"1","k":"2"},"nope":1}`, []string{duplicate, unknown}, 422},
		{"strategic patch, duplicate", "PATCH " + inA + "configmaps/a", smpT, `{"data":{"k":"1","k":"2"}}`, []string{duplicate}, 422},
		{"strategic patch", "PATCH " + inA + "configmaps/a", smpT, `{"nope":1}`, []string{unknown}, 422},
		{"JSON patch", "PATCH " + inA + "configmaps/a", jsonT, `[{"op":"add","path":"/nope","value":1}]`, []string{unknown}, 422},
		{"apply, duplicate", "PATCH " + inA + "configmaps/a", applyT, "apiVersion: v1\nkind: ConfigMap\ndata: {k: a, k: b}\n", []string{`line 3: key "k" already set in map`}, 400},
		{"apply, JSON, duplicate", "PATCH " + inA + "configmaps/a", applyT, `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"1","k":"2"}}`, []string{`line 1: key "k" already set in map`}, 400},
		{"apply, JSON, duplicate, large", "PATCH " + inA + "configmaps/a", applyT, `{"apiVersion":"v1","kind":"ConfigMap","data":{"k":"1","k":"2","x":"` + strings.Repeat(",", 300_000) + `"}}`, []string{duplicate}, 400},
		{"JSON patch, of its own", "PATCH " + inA + "configmaps/a", jsonT, `[{"op":"add","path":"/data","value":{},"nope":1}]`, []string{`json patch unknown field "[0].nope"`}, 422},
	} {
		for mode, want := range map[string]want{
			"Ignore": {200, nil}, "Warn": {200, test.faults}, "": {200, test.faults}, "Strict": {test.strict, nil},
		} {
			t.Run(test.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				a := newAPI(t, endpoints.Config{})
				a.configMap("a", "")
				line := test.line + "?fieldManager=tester"
				if mode != "" {
					line += "&fieldValidation=" + mode
				}
				got := a.do(line, test.body, "Content-Type", test.contentType)
				if want.code == 200 && strings.HasPrefix(line, "POST") {
					want.code = 201
				}
				if got.Code != want.code {
					t.Errorf("%d %s; want %d", got.Code, got.Body, want.code)
				}
				if diff := cmp.Diff(want.warnings, got.warnings); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
				if mode == "Strict" {
					for _, fault := range test.faults {
						if !strings.Contains(got.status().Message, "strict decoding ") || !strings.Contains(got.status().Message, fault) {
							t.Errorf("message %s; want %s", got.status().Message, fault)
						}
					}
				}
			})
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("m", 129)
	kinds := map[string]string{"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions", "DELETE": "DeleteOptions"}
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for _, test := range []struct {
		query, message string // KIND is replaced with the kind of the options
		but            string // a method that does not support the option
	}{
		{"dryRun=Nope", `KIND.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Nope"]: supported values: "All"`, ""},
		{"dryRun=", `KIND.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All"`, ""},
		{"dryRun=true", `KIND.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["true"]: supported values: "All"`, ""},
		{"fieldValidation=Nope", `KIND.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Nope": supported values: "", "Ignore", "Strict", "Warn"`, "DELETE"},
		{"fieldManager=" + long, `KIND.meta.k8s.io "" is invalid: fieldManager: Too long: may not be more than 128 bytes`, "DELETE"},
		{"fieldManager=bad%00", `KIND.meta.k8s.io "" is invalid: fieldManager: Invalid value: "bad\x00": invalid character U+0000 (at position 3)`, "DELETE"},
	} {
		for method, kind := range kinds {
			if method == test.but {
				continue
			}
			path, contentType := inA+"configmaps/a", mergeT
			if method == "POST" {
				path = inA + "configmaps"
			}
			if method != "PATCH" {
				contentType = jsonType
			}
			body := `{"metadata":{"name":"a"}}`
			if method == "DELETE" {
				body = ""
			}
			a.do(method+" "+path+"?"+test.query, body, "Content-Type", contentType).
				want(422, strings.ReplaceAll(test.message, "KIND", kind))
		}
	}
	a.do("PATCH "+inA+"configmaps/a?force=true", "{}", "Content-Type", mergeT).
		want(422, `PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`)
	a.do("PATCH "+inA+"configmaps/a", "{}", "Content-Type", applyT).
		want(422, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`)
	a.must("POST "+inA+"configmaps?fieldManager=%E2%82%AC&dryRun=All&dryRun=All", `{"metadata":{"name":"x"}}`)
}

func TestDeleteOptions(t *testing.T) {
	t.Parallel()
	const policies = `supported values: "Foreground", "Background", "Orphan", "nil"`
	const both = "orphanDependents and deletionPropagation cannot be both set"
	a := newAPI(t, endpoints.Config{})
	for _, test := range []struct {
		query, body, contentType string
		code                     int
		message                  string
	}{
		{query: "gracePeriodSeconds=abc", code: 400, message: `strconv.ParseInt: parsing "abc": invalid syntax`},
		{query: "propagationPolicy=Nope", code: 422, message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Nope": ` + policies},
		{query: "orphanDependents=true&propagationPolicy=Background", code: 422, message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Background": ` + both},
		{query: "gracePeriodSeconds=-1", code: 200},
		{query: "orphanDependents=maybe", code: 200},
		{body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Nope"}`, code: 422, message: `DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Nope": ` + policies},
		{body: `{"gracePeriodSeconds":"x"}`, code: 400, message: "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"},
		{body: "nonsense", code: 400, message: "couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u')"},
		{body: `{"kind":"DeleteOptions","apiVersion":"v9"}`, code: 200},
		{body: `{"kind":"DeleteOptions","apiVersion":"apps/v1","unknown":1}`, code: 200},
		{body: `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}`, code: 200},
		{body: `{}`, code: 200},
		{body: "kind: DeleteOptions\napiVersion: v1\ngracePeriodSeconds: 0\n", contentType: yamlType, code: 200},
		{body: encodeProtobuf(t, &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}}), contentType: protobufType, code: 200},
		{body: "{}", contentType: "text/plain", code: 415, message: "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		// A body replaces the query.
		{query: "dryRun=Nope", body: `{}`, code: 200},
	} {
		a.do("POST "+inA+"configmaps", `{"metadata":{"name":"d"}}`)
		got := a.do("DELETE "+inA+"configmaps/d?"+test.query, test.body, "Content-Type", test.contentType)
		if got.Code != test.code {
			t.Errorf("delete with the query %q and the body %q: code %d, want %d", test.query, test.body, got.Code, test.code)
		}
		got.want(test.code, test.message)
	}
	a.do("DELETE "+inA+"configmaps/d", `{"kind":"Nope","apiVersion":"v1"}`).want(400, "")
}

// TestExport checks that the removed export parameter is rejected.
func TestExport(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for query, code := range map[string]int{"export=true": 400, "export": 400, "export=1&exact=true": 400, "export=false": 200, "export=0": 200, "x=export": 200} {
		message := ""
		if code == 400 {
			message = "the export parameter, deprecated since v1.14, is no longer supported"
		}
		a.do("GET "+inA+"configmaps/a?"+query, "").want(code, message)
	}
}

func TestListOptions(t *testing.T) {
	t.Parallel()
	const list = `ListOptions.meta.k8s.io "" is invalid: `
	a := newAPI(t, endpoints.Config{})
	a.configMap("a", "")
	for _, test := range []struct {
		query   string
		code    int
		message string
	}{
		{"limit=abc", 400, `strconv.ParseInt: parsing "abc": invalid syntax`},
		{"limit=-1", 200, ""},
		{"limit=0&resourceVersion=0", 200, ""},
		{"continue=nonsense", 400, `invalid continue token: continue key is not valid: invalid character '\u009e' looking for beginning of value`},
		{"continue=e30", 400, "invalid continue token: continue key is not valid: server does not recognize this encoded version "},
		{"limit=1&resourceVersion=1&continue=x", 400, "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"},
		{"resourceVersion=abc", 400, `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{"resourceVersionMatch=Exact", 422, list + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"resourceVersionMatch=Nope&resourceVersion=1", 422, list + `resourceVersionMatch: Unsupported value: "Nope": supported values: "Exact", "NotOlderThan", ""`},
		{"resourceVersion=0&resourceVersionMatch=Exact", 422, list + `resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`},
		{"resourceVersion=1&resourceVersionMatch=NotOlderThan", 200, ""},
		{"sendInitialEvents=true", 422, list + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"},
		{"watch=1&sendInitialEvents=true", 422, list + "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
		{"watch=1&resourceVersionMatch=NotOlderThan", 422, list + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
		{"watch=1&continue=x", 422, list + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"},
		{"labelSelector=%21%21", 400, "unable to parse requirement: found '!', expected: identifier"},
		{"labelSelector=a%20in%20b", 400, "unable to parse requirement: found 'b' expected: '('"},
		{"fieldSelector=nonsense", 400, "invalid selector: 'nonsense'; can't understand 'nonsense'"},
		{"fieldSelector=%2C", 200, ""},
		{"timeoutSeconds=abc", 400, `strconv.ParseInt: parsing "abc": invalid syntax`},
		{"allowWatchBookmarks=maybe&unknownParameter=1&timeoutSeconds=-1", 200, ""},
		{"labelSelector=%zz", 200, ""}, // parameters that cannot be parsed are ignored
	} {
		got := a.do("GET "+inA+"configmaps?"+test.query, "")
		if got.Code != test.code {
			t.Errorf("list with %s: code %d, want %d", test.query, got.Code, test.code)
		}
		got.want(test.code, test.message)
	}
	future := a.do("GET "+inA+"configmaps?resourceVersion=999999999", "")
	if future.want(504, ""); future.Header().Get("Retry-After") != "1" || !strings.HasPrefix(future.status().Message, "Timeout: Too large resource version: 999999999, current: ") {
		t.Errorf("list at a future revision: headers %v, body %s", future.Header(), future.Body)
	}
	a.do("GET "+inA+"pods?fieldSelector=spec.none%3Dx", "").want(400, "field label not supported: spec.none")
}

// TestGzip checks that bodies of at least 128 KiB are compressed if the client accepts gzip.
func TestGzip(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	a.configMap("small", fmt.Sprintf(`"k":%q`, strings.Repeat("x", 1000)))
	a.configMap("large", fmt.Sprintf(`"k":%q`, strings.Repeat("x", 130<<10)))
	for _, test := range []struct {
		accept string
		ok     bool
	}{
		{"gzip", true}, {"deflate, gzip;q=0.5", true}, {"gzip;q=0", false}, {"gzip; q=0", false}, {"", false}, {"deflate", false}, {"identity", false},
	} {
		for path, large := range map[string]bool{
			"configmaps/small": false, "configmaps/large": true, "configmaps": true, "configmaps?limit=5": true, "configmaps?fieldSelector=metadata.name%3Dsmall": false,
		} {
			for _, media := range []string{jsonType, yamlType, protobufType} {
				if media == yamlType && test.accept != "gzip" {
					continue // slow, and on the same code path
				}
				got := a.must("GET "+inA+path, "", "Accept-Encoding", test.accept, "Accept", media)
				encoded := got.Header().Get("Content-Encoding") == "gzip"
				if encoded != (large && test.ok) {
					t.Errorf("%s %s %q: encoded %v", path, media, test.accept, encoded)
				}
				body := got.Body.Bytes()
				if encoded {
					z, err := gzip.NewReader(bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					if body, err = io.ReadAll(z); err != nil {
						t.Fatal(err)
					}
				} else if length := got.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(len(body)) {
					t.Errorf("%s %s: Content-Length %s of %d bytes", path, media, length, len(body))
				}
				if kind := kindIn(t, body, media); !strings.HasPrefix(kind, "ConfigMap") {
					t.Errorf("%s %s: kind %s", path, media, kind)
				}
			}
		}
	}
}

// FuzzOptions checks that no query causes a server error, regardless of the verb.
func FuzzOptions(f *testing.F) {
	for _, seed := range []string{"limit=1&continue=e30", "dryRun=All", "gracePeriodSeconds=-1&propagationPolicy=Orphan", "fieldSelector=a%3Db,c!%3Dd&labelSelector=x+in+(y)",
		"resourceVersion=1&resourceVersionMatch=Exact", "pretty=1;&%zz", "force=1&fieldManager=m", "timeoutSeconds=9223372036854775807", "includeObject=None", "resourceVersion=-1", "resourceVersion=18446744073709551615"} {
		f.Add(seed)
	}
	a := newAPI(f, endpoints.Config{})
	a.configMap("a", "")
	lines := []struct{ method, path, body, contentType string }{
		{"GET", "configmaps/a", "", ""}, {"GET", "configmaps", "", ""}, {"POST", "configmaps", `{"metadata":{"generateName":"g"}}`, ""},
		{"PUT", "configmaps/a", `{"metadata":{"name":"a"}}`, ""}, {"PATCH", "configmaps/a", `{}`, mergeT},
		{"PATCH", "configmaps/a", `{"apiVersion":"v1","kind":"ConfigMap"}`, applyT}, {"DELETE", "configmaps/none", "", ""}, {"DELETE", "pods", "", ""},
	}
	f.Fuzz(func(t *testing.T, query string) {
		if values, _ := url.ParseQuery(query); values.Has("watch") {
			t.Skip("a watch would not end")
		}
		for _, line := range lines {
			r := newRequest(line.method+" "+inA+line.path, strings.NewReader(line.body))
			r.URL.RawQuery = query
			r.Header.Set("Content-Type", line.contentType)
			if got := a.send(r); got.Code >= 500 && got.Code != http.StatusGatewayTimeout || !json.Valid(got.Body.Bytes()) {
				t.Errorf("%s %s?%s: %d %s", line.method, line.path, query, got.Code, got.Body)
			}
		}
		a.send(newRequest("DELETE "+inA+"configmaps?fieldSelector=metadata.name!%3Da", nil))
	})
}

// TestCreatedObject checks that the response to a creation is the stored object.
func TestCreatedObject(t *testing.T) {
	t.Parallel()
	a := newAPI(t, endpoints.Config{})
	created := a.must("POST "+inA+"pods?fieldManager=m", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`)
	if created.Code != http.StatusCreated {
		t.Errorf("code %d", created.Code)
	}
	got := a.must("GET "+inA+"pods/p", "")
	if diff := cmp.Diff(created.Body.String(), got.Body.String()); diff != "" {
		t.Errorf("(-created +got):\n%s", diff)
	}
	p := got.pod()
	if p.Spec.RestartPolicy != corev1.RestartPolicyAlways || p.Status.Phase != "" || p.Generation != 1 {
		t.Errorf("pod %+v", p)
	}
	if len(p.ManagedFields) != 1 || p.ManagedFields[0].Manager != "m" || p.ManagedFields[0].Operation != metav1.ManagedFieldsOperationUpdate {
		t.Errorf("managed fields %v", p.ManagedFields)
	}
}
