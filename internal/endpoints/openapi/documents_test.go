package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	openapiproto "k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

var reference = regexp.MustCompile(`"\$ref":"([^"]*)"`)

// TestV2Parses decodes the v2 document of all group versions as clients do: as JSON, and as protobuf with
// the model parser of kubectl.
func TestV2Parses(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	documents := testDocuments(t, true)
	data := plain(t, documents.V2())
	var swagger spec.Swagger
	if err := json.Unmarshal(data, &swagger); err != nil {
		t.Fatal(err)
	}
	for _, match := range reference.FindAllSubmatch(data, -1) {
		ref := string(match[1])
		if name, ok := strings.CutPrefix(ref, v2Reference); ok {
			if _, ok := swagger.Definitions[name]; ok {
				continue
			}
		}
		if name, ok := strings.CutPrefix(ref, "#/parameters/"); ok {
			if _, ok := swagger.Parameters[name]; ok {
				continue
			}
		}
		t.Errorf("dangling reference %s", ref)
	}
	ids := map[string]bool{}
	for _, match := range regexp.MustCompile(`"operationId":"([^"]*)"`).FindAllSubmatch(data, -1) {
		if id := string(match[1]); ids[id] {
			t.Errorf("operation id %s exists twice", id)
		} else {
			ids[id] = true
		}
	}

	content, err := documents.V2().Protobuf()
	if err != nil {
		t.Fatal(err)
	}
	wire, err := content.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var document openapi_v2.Document
	if err := proto.Unmarshal(wire, &document); err != nil {
		t.Fatal(err)
	}
	models, err := openapiproto.NewOpenAPIData(&document)
	if err != nil {
		t.Fatal(err)
	}
	known := map[schema.GroupVersionKind]bool{}
	for _, name := range models.ListModels() {
		for _, kind := range kindsOf(models.LookupModel(name)) {
			known[kind] = true
		}
	}
	for _, part := range testParts(t, true) {
		for _, r := range part.Resources {
			if kind := part.GroupVersion.WithKind(r.Kind); !known[kind] {
				t.Errorf("kubectl does not find a schema for %v", kind)
			}
		}
	}
}

// kindsOf returns the kinds in the x-kubernetes-group-version-kind extension of a model, by which kubectl
// finds the model.
func kindsOf(model openapiproto.Schema) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	list, _ := model.GetExtensions()["x-kubernetes-group-version-kind"].([]any)
	for _, entry := range list {
		if kind, ok := entry.(map[any]any); ok {
			group, _ := kind["group"].(string)
			version, _ := kind["version"].(string)
			name, _ := kind["kind"].(string)
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: version, Kind: name})
		}
	}
	return kinds
}

// TestV3Parses decodes the v3 documents of all group versions.
func TestV3Parses(t *testing.T) {
	t.Parallel()
	documents := testDocuments(t, true)
	for path, d := range documents.allLocked() {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			data := plain(t, d)
			var document spec3.OpenAPI
			if err := json.Unmarshal(data, &document); err != nil {
				t.Fatal(err)
			}
			if len(document.Paths.Paths) == 0 {
				t.Error("no paths")
			}
			for _, match := range reference.FindAllSubmatch(data, -1) {
				name := strings.TrimPrefix(string(match[1]), v3Reference)
				if document.Components.Schemas[name] == nil {
					t.Errorf("dangling reference %s", match[1])
				}
			}
		})
	}
}

// TestV3Protobuf decodes the protobuf form of one document.
func TestV3Protobuf(t *testing.T) {
	t.Parallel()
	d, _ := testDocuments(t, false).V3("apis/apps/v1")
	content, err := d.Protobuf()
	if err != nil {
		t.Fatal(err)
	}
	wire, err := content.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var document openapi_v3.Document
	if err := proto.Unmarshal(wire, &document); err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, schema := range document.Components.Schemas.AdditionalProperties {
		have = append(have, schema.Name)
	}
	if name := "io.k8s.api.apps.v1.Deployment"; !slices.Contains(have, name) {
		t.Errorf("no schema of %s among %q", name, have)
	}
}

// TestChanges adds, changes and removes a part. It checks that the part's v3 document, the index and the v2
// document change, and that all other documents keep their ETags.
func TestChanges(t *testing.T) {
	t.Parallel()
	d := testDocuments(t, false)
	tags := func() map[string]string {
		t.Helper()
		d.lock()
		defer d.mu.Unlock()
		all := map[string]string{}
		for path, document := range d.allLocked() {
			all[path] = tag(t, document)
		}
		return all
	}
	before, index, v2tag := tags(), indexTag(t, d), tag(t, d.V2())

	part, _ := customPart(t)
	d.Set(part)
	const path = "apis/cr.example.com/v1"
	added := tags()
	first := added[path]
	if first == "" || indexTag(t, d) == index || tag(t, d.V2()) == v2tag {
		t.Error("a part was added, but the index or the v2 document did not change")
	}
	if !strings.Contains(string(plain(t, d.V2())), "readCrExampleComV1NamespacedGadget") {
		t.Error("the v2 document lacks the part that was added")
	}
	part.Resources = part.Resources[:1]
	d.Set(part)
	if tag(t, d.documentLocked(path)) == first {
		t.Error("a part was changed, but its document did not change")
	}
	d.Remove(part.GroupVersion, schema.GroupVersion{Group: "unknown.example.com", Version: "v1"})
	if after := tags(); !maps.Equal(before, after) || indexTag(t, d) != index || tag(t, d.V2()) != v2tag {
		t.Error("removing the part does not restore the previous documents")
	}
	delete(added, path)
	if !maps.Equal(before, added) {
		t.Error("adding a part changed other documents")
	}
}

// TestChangeDuringBuild checks that a document whose part changes while it is built does not have the ETag of the
// changed part. Otherwise, clients would keep the old document.
func TestChangeDuringBuild(t *testing.T) {
	t.Parallel()
	part, _ := customPart(t)
	generation, schemas := 1, part.Schemas
	part.Digest = func() string { return fmt.Sprint(generation) }
	part.Schemas = func(v2 bool) (map[string]Schema, error) {
		generation = 2
		return schemas(v2)
	}
	d := New(Config{Parts: []Part{part}})
	old := d.V2()
	plain(t, old)
	d.Set(part)
	if now := d.V2(); now == old || tag(t, now) == tag(t, old) {
		t.Error("the changed document has the same ETag")
	}
}

// TestCustomWithoutSchema checks that custom resources without a schema are omitted. Their definition may have
// been deleted while the document is built.
func TestCustomWithoutSchema(t *testing.T) {
	t.Parallel()
	part, _ := customPart(t)
	part.Resources = append(part.Resources, Resource{Name: "others", Kind: "Other", Verbs: []string{"get"}}, Resource{
		Name: "others", Subresource: "scale", Kind: "Other", Verbs: []string{"get"}, Object: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
	})
	d := New(Config{Parts: []Part{part}})
	v3, _ := d.V3("apis/cr.example.com/v1")
	for name, document := range map[string]*Document{"v2": d.V2(), "v3": v3} {
		if text := string(plain(t, document)); strings.Contains(text, "/others") || !strings.Contains(text, "/apis/cr.example.com/v1/namespaces/{namespace}/gadgets") {
			t.Errorf("%s: the paths are not those of the resource with a schema", name)
		}
	}
}

// TestGroupDocument checks the document of a group while versions are added and removed.
func TestGroupDocument(t *testing.T) {
	t.Parallel()
	v1 := Part{GroupVersion: schema.GroupVersion{Group: "apps", Version: "v1"}}
	beta := Part{GroupVersion: schema.GroupVersion{Group: "apps", Version: "v1beta1"}}
	d := New(Config{Parts: []Part{v1, beta}})
	for _, step := range []struct {
		remove schema.GroupVersion
		want   []string
	}{
		{schema.GroupVersion{}, []string{"apis", "apis/apps", "apis/apps/v1", "apis/apps/v1beta1", "version"}},
		{v1.GroupVersion, []string{"apis", "apis/apps", "apis/apps/v1beta1", "version"}},
		{beta.GroupVersion, []string{"apis", "version"}},
	} {
		d.Remove(step.remove)
		if have := slices.Sorted(maps.Keys(d.allLocked())); !slices.Equal(have, step.want) {
			t.Errorf("after removing %q: documents %q, want %q", step.remove, have, step.want)
		}
	}
}

// TestWrongDeclarations checks the errors of malformed parts.
func TestWrongDeclarations(t *testing.T) {
	t.Parallel()
	gv := schema.GroupVersion{Version: "v1"}
	broken := errors.New("broken")
	for _, test := range []struct {
		name string
		part Part
		want string
	}{
		{"kind", Part{GroupVersion: gv, Resources: []Resource{{Name: "x", Kind: "X", Verbs: []string{"get"}}}}, "no schema of /v1, Kind=X"},
		{"options", Part{GroupVersion: gv, Resources: []Resource{{Name: "pods", Kind: "Pod", Subresource: "x", Connect: []string{"GET"}, Options: "X"}}}, `unknown kind of options "X"`},
		{"method", Part{GroupVersion: gv, Resources: []Resource{{Name: "pods", Kind: "Pod", Subresource: "x", Connect: []string{"TRACE"}, Options: "PodExecOptions"}}}, `method "trace" is unknown`},
		{"model", Part{GroupVersion: gv, Resources: []Resource{{Name: "x", Kind: "X", Verbs: []string{"get"}}}, Schemas: func(bool) (map[string]Schema, error) {
			return map[string]Schema{"a.X": {Kind: "X", JSON: []byte("{}"), Uses: []string{"a.Y"}}}, nil
		}}, "no model a.Y"},
		{"schemas", Part{GroupVersion: gv, Schemas: func(bool) (map[string]Schema, error) { return nil, broken }}, "schemas of v1: broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := New(Config{Parts: []Part{test.part}})
			document, _ := d.V3("api/v1")
			_, jsonErr := document.JSON()
			_, protobufErr := d.V2().Protobuf()
			errs := []error{jsonErr, protobufErr}
			if test.part.Schemas != nil { // so that the document must be built for its ETag
				_, etagErr := document.ETag()
				_, _, indexErr := d.V3Index()
				errs = append(errs, etagErr, indexErr)
			}
			for _, err := range errs {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one with %q", err, test.want)
				}
			}
		})
	}
}

func TestIdentifier(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]string{
		"": "", "apps": "apps", "storage.k8s.io": "storage", "rbac.authorization.k8s.io": "rbacAuthorization",
		"flowcontrol.apiserver.k8s.io": "flowcontrolApiserver", "my-group.example.com": "myGroupExampleCom",
	} {
		if have := identifier(group); have != want {
			t.Errorf("identifier(%q) = %q, want %q", group, have, want)
		}
	}
}

func tag(t *testing.T, d *Document) string {
	t.Helper()
	etag, err := d.ETag()
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func indexTag(t *testing.T, d *Documents) string {
	t.Helper()
	_, etag, err := d.V3Index()
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

// The following benchmarks measure the first request of each type.

func BenchmarkNew(b *testing.B) {
	parts := testParts(b, false)
	b.ReportAllocs()
	for b.Loop() {
		New(Config{Version: "1.37", Parts: parts})
	}
}

func BenchmarkFirstIndex(b *testing.B) {
	parts := testParts(b, false)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := New(Config{Version: "1.37", Parts: parts}).V3Index(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFirstDocument(b *testing.B) {
	parts := testParts(b, false)
	first := func(get func(*Documents) (Content, error)) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				content, err := get(New(Config{Version: "1.37", Parts: parts}))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(content.Gzip)), "kept-B")
				b.ReportMetric(float64(content.Size), "size-B")
			}
		}
	}
	b.Run("v2", first(func(d *Documents) (Content, error) { return d.V2().JSON() }))
	b.Run("v2-protobuf", first(func(d *Documents) (Content, error) { return d.V2().Protobuf() }))
	for _, part := range parts {
		b.Run(fmt.Sprintf("v3-%s", strings.ReplaceAll(part.path(), "/", "-")), first(func(d *Documents) (Content, error) {
			document, _ := d.V3(part.path())
			return document.JSON()
		}))
	}
}
