package openapi

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var fruit = schema.GroupVersion{Group: "fruit.example.com", Version: "v1"}

// remoteDocument refers to two models that the local document also has. One model is identical, and the
// other differs only in a model that it refers to.
const remoteDocument = `{"paths":{
	"/apis/fruit.example.com/v1/apples":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/com.example.Apple"}}}}},
	"/apis/fruit.example.com/v10/apples":{"get":{}},"/healthz":{"get":{}}},
	"definitions":{
		"com.example.Apple":{"properties":{"meta":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},"own":{"$ref":"#/definitions/com.example.Tree"}}},
		"com.example.Tree":{"type":"object"},"com.example.Unused":{"type":"object"},
		"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":{"type":"object","description":"another"}}}`

func built(t *testing.T, d *Documents) (paths, definitions map[string]json.RawMessage) {
	t.Helper()
	content, err := d.V2().JSON()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := content.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var document fragment
	if err := json.Unmarshal(plain, &document); err != nil {
		t.Fatal(err)
	}
	return document.Paths, document.Definitions
}

func TestRemote(t *testing.T) {
	t.Parallel()
	d := New(Config{Version: "1.37"})
	body, failure := remoteDocument, error(nil)
	remote := Remote{
		GroupVersion: fruit, Server: "one", ETag: "E1", V2: func() ([]byte, error) { return []byte(body), failure },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("remote " + r.URL.Path)) }),
	}
	d.SetRemote(remote)
	paths, definitions := built(t, d)
	const meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	if paths["/apis/fruit.example.com/v1/apples"] == nil || paths["/apis/fruit.example.com/v10/apples"] != nil || paths["/healthz"] != nil {
		t.Error("the document does not contain exactly the paths of the group version")
	}
	if definitions["com.example.Tree"] == nil || definitions["com.example.Unused"] != nil || definitions[meta+"_v2"] == nil {
		t.Errorf("the document has the definitions %v, want the used definitions only", slices.Sorted(maps.Keys(definitions)))
	}
	if !strings.Contains(string(definitions["com.example.Apple"]), meta+`_v2"`) {
		t.Errorf("the schema refers to the definition of another document: %s", definitions["com.example.Apple"])
	}

	index, etag, err := d.V3Index()
	if err != nil || !strings.Contains(string(index), `"apis/fruit.example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/fruit.example.com/v1?hash=E1"}`) {
		t.Errorf("index with the remote document: error %v, %s", err, index)
	}
	w := httptest.NewRecorder()
	d.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/openapi/v3/apis/fruit.example.com/v1", nil))
	if w.Body.String() != "remote /openapi/v3/apis/fruit.example.com/v1" {
		t.Errorf("the document is %s", w.Body)
	}
	document := d.V2()
	if d.SetRemote(remote); d.V2() != document {
		t.Error("SetRemote with an equal description replaced the document")
	}
	failure, remote.V2Stamp, remote.ETag = errors.New("down"), "2", "E2"
	d.SetRemote(remote)
	if paths, _ := built(t, d); len(paths) == 0 || paths["/apis/fruit.example.com/v1/apples"] != nil {
		t.Errorf("the paths are %v, want all except the paths of the unreadable document", slices.Sorted(maps.Keys(paths)))
	}
	if _, again, err := d.V3Index(); err != nil || again == etag {
		t.Errorf("the index is the same: %v", err)
	}
	d.RemoveRemote(fruit)
	if index, _, err := d.V3Index(); err != nil || strings.Contains(string(index), "fruit") {
		t.Errorf("index without the remote document: error %v, %s", err, index)
	}
}

func TestInvalidFragments(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"no JSON":              `<html>`,
		"leads nowhere":        `{"paths":{"/apis/fruit.example.com/v1/a":{"$ref":"#/definitions/none"}}}`,
		"definitions are text": `{"definitions":"all"}`,
		"invalid UTF-8":        `{"paths":{"/apis/fruit.example.com/v1/a":{"get":{"description":"` + "\xff" + `"}}}}`,
		"too deep":             `{"paths":{"/apis/fruit.example.com/v1/a":{"x-a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}}`,
		"path item is a list":  `{"paths":{"/apis/fruit.example.com/v1/a":[]}}`,
		"type is an object":    `{"paths":{"/apis/fruit.example.com/v1/a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"type":{}}}}`,
	} {
		if _, err := readFragment([]byte(document), []string{"/apis/fruit.example.com/v1/"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestRenamesSpread checks that a model that refers to a renamed model is also renamed.
func TestRenamesSpread(t *testing.T) {
	t.Parallel()
	d := &document{library: openLibrary(modelsFile), version: v2, builtin: map[uint32]bool{}, others: map[string]Schema{
		"a": {JSON: []byte(`{"$ref":"#/definitions/b"}`)}, "b": {JSON: []byte(`{"$ref":"#/definitions/c"}`)}, "c": {JSON: []byte(`{"type":"object"}`)}, "d": {JSON: []byte(`{}`)},
	}}
	names, err := d.newNames(&fragment{Definitions: map[string]json.RawMessage{
		"a": []byte(`{"$ref": "#/definitions/b"}`), "b": []byte(`{"$ref":"#/definitions/c"}`), "c": []byte(`{"type":"string"}`),
		"d": []byte(`{"x-kubernetes-group-version-kind":[1]}`), "e": []byte(`{}`),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var renameReferences []string
	for name := range names {
		renameReferences = append(renameReferences, name)
	}
	slices.Sort(renameReferences)
	if !slices.Equal(renameReferences, []string{"a", "b", "c"}) {
		t.Errorf("renamed definitions %v, want a, b and c", names)
	}
}

// FuzzShare checks that no document of another server can cause a panic.
func FuzzShare(f *testing.F) {
	f.Add([]byte(remoteDocument))
	f.Add([]byte(`{"paths":{"/apis/fruit.example.com/v1/":[]},"definitions":{"a":{"$ref":"#/definitions/a"}}}`))
	library := openLibrary(modelsFile)
	f.Fuzz(func(_ *testing.T, data []byte) {
		s, err := readFragment(data, []string{"/apis/fruit.example.com/v1/"})
		if err != nil {
			return
		}
		d := &document{library: library, version: v2, builtin: map[uint32]bool{}, others: map[string]Schema{}}
		_, _, _ = d.addFragment(s)
	})
}
