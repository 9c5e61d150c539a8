package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type exchange struct {
	name    string
	method  string // GET if empty
	path    string
	request map[string]string
	status  int
	// headers contains the expected headers of the response. %ETAG% is replaced with the document's ETag.
	// An empty value means that the header must be absent.
	headers map[string]string
}

// TestHandler replays recorded requests for compressed and uncompressed documents.
func TestHandler(t *testing.T) {
	t.Parallel()
	documents := testDocuments(t, false)
	handler := documents.Handler(slog.New(slog.DiscardHandler))
	policy, _ := documents.V3("apis/policy/v1")
	const path = "/openapi/v3/apis/policy/v1"
	etag, quoted := tag(t, policy), `"`+tag(t, policy)+`"`
	v2quoted := `"` + tag(t, documents.V2()) + `"`
	for _, test := range []exchange{
		{"index", "", "/openapi/v3", nil, 200, map[string]string{"Content-Type": "text/plain; charset=utf-8"}},
		{"by hash", "", path + "?hash=" + etag, nil, 200, map[string]string{
			"Etag": quoted, "Content-Type": mediaJSON, "Cache-Control": "public, immutable", "Accept-Ranges": "bytes"}},
		{"without hash", "", path, nil, 200, map[string]string{"Etag": quoted, "Content-Type": mediaJSON, "Cache-Control": "", "Expires": ""}},
		{"not modified", "", path, map[string]string{"If-None-Match": quoted}, 304, map[string]string{"Etag": quoted, "Content-Type": ""}},
		{"modified", "", path, map[string]string{"If-None-Match": `"ABC"`}, 200, map[string]string{"Etag": quoted}},
		{"one of several", "", path, map[string]string{"If-None-Match": `"ABC", ` + quoted}, 304, map[string]string{"Etag": quoted}},
		{"another hash", "", path + "?hash=ABC", nil, 301, map[string]string{"Etag": quoted, "Location": path + "?hash=" + etag}},
		{"protobuf", "", path, map[string]string{"Accept": mediaV3Protobuf}, 200, map[string]string{"Etag": quoted, "Content-Type": mediaV3Protobuf}},
		{"protobuf as of old", "", path, map[string]string{"Accept": mediaV3At}, 200, map[string]string{"Content-Type": mediaV3Protobuf}},
		{"another type", "", path, map[string]string{"Accept": "text/html"}, 406, map[string]string{"Etag": ""}},
		{"another type by hash", "", path + "?hash=" + etag, map[string]string{"Accept": "text/html"}, 406, map[string]string{"Cache-Control": "", "Expires": ""}},
		{"v2", "", "/openapi/v2", map[string]string{"Accept": "*/*"}, 200, map[string]string{"Etag": v2quoted, "Content-Type": mediaJSON}},
		{"v2 protobuf", "", "/openapi/v2", map[string]string{"Accept": mediaV2At}, 200, map[string]string{"Etag": v2quoted, "Content-Type": mediaV2Protobuf}},
		{"v2 by preference", "", "/openapi/v2", map[string]string{"Accept": "application/json;q=0.5, " + mediaV2Protobuf}, 200, map[string]string{"Content-Type": mediaV2Protobuf}},
		{"v2 as v3", "", "/openapi/v2", map[string]string{"Accept": mediaV3At}, 406, nil},
		{"v2 another type", "", "/openapi/v2", map[string]string{"Accept": "text/html"}, 406, nil},
		{"missing group", "", "/openapi/v3/apis/nope/v1", nil, 404, nil},
		{"missing version", "", "/openapi/v4", nil, 404, nil},
		{"missing", "", "/openapi/", nil, 404, nil},
		{"post", "POST", "/openapi/v2", nil, 200, map[string]string{"Etag": v2quoted}},
		{"head", "HEAD", path, nil, 200, map[string]string{"Etag": quoted}},
		{"gzip", "", path, map[string]string{"Accept-Encoding": "br, gzip"}, 200, map[string]string{"Content-Encoding": "gzip", "Etag": quoted}},
		{"no gzip", "", path, map[string]string{"Accept-Encoding": "gzip;q=0, identity"}, 200, map[string]string{"Content-Encoding": ""}},
		{"range", "", path, map[string]string{"Range": "bytes=0-9"}, 206, nil},
		{"range of gzip", "", path, map[string]string{"Range": "bytes=0-9", "Accept-Encoding": "gzip"}, 200, map[string]string{"Content-Encoding": "gzip"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.method == "" {
				test.method = http.MethodGet
			}
			r := httptest.NewRequest(test.method, test.path, nil)
			for name, value := range test.request {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			for name, want := range test.headers {
				if have := w.Header().Get(name); have != want {
					t.Errorf("%s: %q, want %q", name, have, want)
				}
			}
		})
	}
}

// TestHandlerBodies compares compressed and uncompressed response bodies.
func TestHandlerBodies(t *testing.T) {
	t.Parallel()
	documents := testDocuments(t, false)
	server := httptest.NewServer(documents.Handler(slog.New(slog.DiscardHandler)))
	t.Cleanup(server.Close)
	get := func(path, encoding string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", encoding)
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(body)) != response.ContentLength {
			t.Errorf("%s: body of %d bytes with Content-Length %d", path, len(body), response.ContentLength)
		}
		return response, body
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if _, body := get("/openapi/v3", "identity"); json.Unmarshal(body, &index) != nil {
		t.Fatalf("index is %s", body)
	}
	for path, entry := range index.Paths {
		response, body := get(entry.ServerRelativeURL, "identity")
		if response.StatusCode != http.StatusOK || !json.Valid(body) {
			t.Errorf("%s: status %d, or the body is not JSON", path, response.StatusCode)
		}
		_, packed := get(entry.ServerRelativeURL, "gzip")
		zr, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		if inflated, err := io.ReadAll(zr); err != nil || !bytes.Equal(inflated, body) {
			t.Errorf("%s: the compressed response contains a different document (error %v)", path, err)
		}
	}
	var paths []string
	for path := range documents.allLocked() {
		if _, ok := index.Paths[path]; !ok {
			paths = append(paths, path)
		}
	}
	if len(paths) > 0 {
		t.Errorf("the index lacks %q", paths)
	}
}

// TestHandlerFailure checks that a document that cannot be built results in a 503 and a log
// message.
func TestHandlerFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	wrong := Part{
		GroupVersion: schema.GroupVersion{Version: "v1"}, Resources: []Resource{{Name: "x", Kind: "X", Verbs: []string{"get"}}},
		Schemas: func(bool) (map[string]Schema, error) { return nil, nil },
	}
	handler := New(Config{Parts: []Part{wrong}}).Handler(slog.New(slog.NewTextHandler(&log, nil)))
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/api/v1?hash=ABC"} {
		log.Reset()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d", path, w.Code)
		}
		if !strings.Contains(log.String(), "no schema of /v1, Kind=X") {
			t.Errorf("%s: logged %q", path, log.String())
		}
		if diff := cmp.Diff(http.Header{}, w.Header()); diff != "" {
			t.Errorf("%s: headers %s", path, diff)
		}
	}
}

func FuzzNegotiate(f *testing.F) {
	f.Add("application/json;q=0.5, */*", "gzip;q=0.1, *")
	f.Add(mediaV2At, "br;q=1.0, gzip;q=0")
	f.Fuzz(func(t *testing.T, accept, encoding string) {
		acceptsGzip(encoding)
		switch media := negotiate(accept, v2); media {
		case "", mediaJSON, mediaV2Protobuf:
		default:
			t.Errorf("negotiated %q for %q", media, accept)
		}
	})
}
