package openapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// changes is the name of the golden file with the differences between the current schemas and the schemas
// recorded from the previous release. Each line is a change that Kubernetes made to its types.
const changes = "changes-since-recording.txt"

// TestV2AsRecorded compares the v2 document with that of a real kube-apiserver. Everything except the
// schemas must be equal.
func TestV2AsRecorded(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	var want, have map[string]any
	readJSON(t, "recorded-v2.json.gz", &want)
	if err := json.Unmarshal(plain(t, testDocuments(t, false).V2()), &have); err != nil {
		t.Fatal(err)
	}
	comparePaths(t, "v2", want["paths"].(map[string]any), have["paths"].(map[string]any))
	wantModels, haveModels := want["definitions"].(map[string]any), have["definitions"].(map[string]any)
	for _, w := range []map[string]any{want, have} {
		delete(w, "paths")
		delete(w, "definitions")
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("v2 document (-recorded +ours):\n%s", diff)
	}
	compareChanges(t, "v2", wantModels, haveModels)
}

// TestV3AsRecorded compares the v3 documents with the recorded documents, including the set of schemas in
// each.
func TestV3AsRecorded(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	var want struct {
		Documents map[string]struct {
			Paths  map[string]any
			Models []string
		}
		Schemas map[string]any
	}
	readJSON(t, "recorded-v3.json.gz", &want)
	documents := testDocuments(t, false)
	models := map[string]any{}
	for path, w := range want.Documents {
		d, ok := documents.V3(path)
		if !ok {
			t.Errorf("there is no document %s", path)
			continue
		}
		var have struct {
			Paths      map[string]any
			Components struct{ Schemas map[string]any }
		}
		if err := json.Unmarshal(plain(t, d), &have); err != nil {
			t.Fatal(err)
		}
		comparePaths(t, path, w.Paths, have.Paths)
		for _, name := range w.Models {
			if _, ok := have.Components.Schemas[name]; !ok && name != "io.k8s.api.resource.v1.NodeAllocatableResourceMapping" {
				t.Errorf("%s lacks the schema of %s", path, name)
			}
		}
		maps.Copy(models, have.Components.Schemas)
	}
	compareChanges(t, "v3", want.Schemas, models)
}

func comparePaths(t *testing.T, document string, want, have map[string]any) {
	t.Helper()
	for path, w := range want {
		if diff := cmp.Diff(w, have[path]); diff != "" {
			t.Errorf("%s: path %s (-recorded +ours):\n%s", document, path, diff)
		}
	}
}

// compareChanges compares the differences between the schemas with the golden file. Descriptions, which
// differ in many places, and the group versions of the meta kinds are ignored.
func compareChanges(t *testing.T, version string, want, have map[string]any) {
	t.Helper()
	var lines []string
	for name := range want {
		if _, ok := have[name]; !ok {
			lines = append(lines, version+" "+name+": gone")
			continue
		}
		differences(want[name], have[name], version+" "+name, &lines)
	}
	compareGolden(t, version+"-"+changes, lines)
}

func differences(want, have any, path string, lines *[]string) {
	w, ok := want.(map[string]any)
	h, ok2 := have.(map[string]any)
	if !ok || !ok2 {
		if !cmp.Equal(want, have) {
			*lines = append(*lines, fmt.Sprintf("%s: %v -> %v", path, want, have))
		}
		return
	}
	for key := range h {
		if _, ok := w[key]; !ok {
			*lines = append(*lines, path+"."+key+": new")
		}
	}
	for key := range w {
		switch _, there := h[key]; {
		case !there:
			*lines = append(*lines, path+"."+key+": gone")
		case key == "description" || key == "x-kubernetes-group-version-kind" && len(w[key].([]any)) > 1:
		default:
			differences(w[key], h[key], path+"."+key, lines)
		}
	}
}

// customPart returns the part of the recorded custom resource with the recorded schemas, and the recorded
// paths.
func customPart(t *testing.T) (Part, map[string]any) {
	t.Helper()
	var want struct {
		Paths      map[string]any
		Components struct {
			Schemas map[string]json.RawMessage
		}
	}
	readJSON(t, "recorded-custom.json.gz", &want)
	schemas := map[string]Schema{}
	for name, data := range want.Components.Schemas {
		if !strings.HasPrefix(name, "com.example.") {
			continue
		}
		s := Schema{Kind: name[strings.LastIndexByte(name, '.')+1:], JSON: data}
		if kind, ok := strings.CutSuffix(s.Kind, "List"); ok {
			s.ListOf = kind
		}
		for other := range want.Components.Schemas {
			if strings.Contains(string(data), `"`+v3Reference+other+`"`) {
				s.Uses = append(s.Uses, other)
			}
		}
		schemas[name] = s
	}
	part := Part{
		GroupVersion: schema.GroupVersion{Group: "cr.example.com", Version: "v1"},
		Custom:       true,
		Schemas: func(v2 bool) (map[string]Schema, error) {
			written := map[string]Schema{}
			for name, s := range schemas {
				if v2 {
					s.JSON = []byte(strings.ReplaceAll(string(s.JSON), v3Reference, v2Reference))
				}
				written[name] = s
			}
			return written, nil
		},
		Resources: []Resource{{
			Name: "gadgets", Kind: "Gadget", Namespaced: true,
			Verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}, {
			Name: "gadgets", Kind: "Gadget", Namespaced: true, Subresource: "status", Verbs: []string{"get", "patch", "update"},
		}, {
			Name: "gadgets", Kind: "Gadget", Namespaced: true, Subresource: "scale", Verbs: []string{"get", "patch", "update"},
			Object: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		}},
	}
	return part, want.Paths
}

// TestCustomAsRecorded compares the document of a custom resource with the recorded document.
func TestCustomAsRecorded(t *testing.T) {
	t.Parallel()
	part, want := customPart(t)
	d, ok := New(Config{Parts: []Part{part}}).V3("apis/cr.example.com/v1")
	if !ok {
		t.Fatal("there is no document")
	}
	var have struct {
		Paths      map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(plain(t, d), &have); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have.Paths); diff != "" {
		t.Errorf("paths (-recorded +ours):\n%s", diff)
	}
	for _, name := range []string{"com.example.cr.v1.Gadget", "com.example.cr.v1.GadgetList", metaModels + "ObjectMeta", "io.k8s.api.autoscaling.v1.ScaleSpec"} {
		if have.Components.Schemas[name] == nil {
			t.Errorf("no schema of %s", name)
		}
	}
	var recorded struct {
		Components struct{ Schemas map[string]any }
	}
	readJSON(t, "recorded-custom.json.gz", &recorded)
	// The group versions that Kubernetes has added and removed since the recording.
	gained := []string{"lifecycle.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha3", "storagemigration.k8s.io/v1"}
	lost := []string{"scheduling.k8s.io/v1alpha2"}
	listed := slices.Concat(kindsListed(recorded.Components.Schemas[modelDelete]), gained)
	listed = slices.DeleteFunc(listed, func(gv string) bool { return slices.Contains(lost, gv) })
	slices.Sort(listed)
	if diff := cmp.Diff(listed, kindsListed(have.Components.Schemas[modelDelete])); diff != "" {
		t.Errorf("kinds of DeleteOptions (-recorded +ours):\n%s", diff)
	}
}

// kindsListed returns the group versions of the kinds that a schema lists, sorted.
func kindsListed(schema any) []string {
	var listed []string
	object, _ := schema.(map[string]any)
	kinds, _ := object[kindsExtension].([]any)
	for _, k := range kinds {
		kind := k.(map[string]any)
		listed = append(listed, fmt.Sprintf("%s/%s", kind["group"], kind["version"]))
	}
	slices.Sort(listed)
	return listed
}

// TestKindsOfEachGroupVersion checks the kinds of DeleteOptions and WatchEvent. As in the recorded
// documents, a v3 document of built-in kinds lists the core group and its own group, and the v2 document
// lists all groups.
func TestKindsOfEachGroupVersion(t *testing.T) {
	t.Parallel()
	documents := testDocuments(t, false)
	for path, want := range map[string][]string{
		"api/v1": {"/v1"}, "apis/apps/v1": {"/v1", "apps/v1"}, "apis/autoscaling/v2": {"/v1", "autoscaling/v2"},
		"apis/apiextensions.k8s.io/v1": {"/v1", "apiextensions.k8s.io/v1"},
	} {
		d, _ := documents.V3(path)
		var have struct {
			Components struct{ Schemas map[string]any }
		}
		if err := json.Unmarshal(plain(t, d), &have); err != nil {
			t.Fatal(err)
		}
		for _, model := range []string{modelDelete, modelWatchEvent} {
			if diff := cmp.Diff(want, kindsListed(have.Components.Schemas[model])); diff != "" {
				t.Errorf("%s: kinds of %s (-recorded +ours):\n%s", path, model, diff)
			}
		}
	}
	var have struct{ Definitions map[string]any }
	if err := json.Unmarshal(plain(t, documents.V2()), &have); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{modelDelete, modelWatchEvent} {
		if listed := kindsListed(have.Definitions[model]); !slices.Contains(listed, "imagepolicy.k8s.io/v1alpha1") || len(listed) < 60 {
			t.Errorf("v2: kinds of %s: %v", model, listed)
		}
	}
}
