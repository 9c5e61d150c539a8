package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/test/testserver"
)

// TestOwnExport creates and exports an object of each kind. It checks that a PUT of the unchanged object, an
// empty patch, and a repeated apply of the export do not create a new version. It then deletes the object,
// creates it again from the export, and checks that it is the same as before.
func TestOwnExport(t *testing.T) {
	t.Parallel()
	t.Run("by default", func(t *testing.T) {
		t.Parallel()
		exportKinds(t, "builtin", defaultFacts(t))
	})
	t.Run("on demand", func(t *testing.T) {
		t.Parallel()
		skipShort(t, "the kinds that are enabled by default are exported")
		exportKinds(t, "builtin-beta", onDemandFacts(t), onDemand...)
	})
	t.Run("custom", func(t *testing.T) {
		t.Parallel()
		exportCustom(t)
	})
}

// exportCustom exports a custom resource with defaults, a status and unknown fields.
func exportCustom(t *testing.T) {
	srv := testserver.New(t, testserver.Options{Flags: recordedFlags})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	server := newFetcher(t, srv)
	var definition, object map[string]any
	if err := errors.Join(json.Unmarshal([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}, "spec": {
		"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}, "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
		"subresources": {"status": {}}, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
			"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "empty": {"type": "object"}, "none": {"type": "string", "nullable": true},
				"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "ports": {"type": "array", "x-kubernetes-list-type": "map",
				"x-kubernetes-list-map-keys": ["name"], "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "port": {"type": "integer", "default": 80}}}}}},
			"status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}}}]}}`), &definition),
		json.Unmarshal([]byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "labels": {"a": "b"}, "finalizers": ["example.com/keep"]},
			"spec": {"empty": {}, "none": null, "free": {"any": [1, 2.5, "x", {}]}, "ports": [{"name": "a"}, {"name": "b", "port": 81}]}}`), &object)); err != nil {
		t.Fatal(err)
	}
	server.must(t, http.StatusCreated, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	if err := replayer.AwaitDefinitions(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.exportOne(t, "/apis/example.com/v1/namespaces/default/widgets", object)
}

// exportKinds exports one object of each kind: the recorded object, or the object of onDemandObject if none is
// recorded.
func exportKinds(t *testing.T, folder string, facts []Fact, flags ...string) {
	srv := testserver.New(t, testserver.Options{Flags: slices.Concat(flags, recordedFlags)})
	replayer, err := NewReplayer(srv.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := FixturesDir()
	if err != nil {
		t.Fatal(err)
	}
	server := newFetcher(t, srv)
	server.makeNamespace(t, "on-demand")
	recorded := recordedCreations(t, folder)
	for _, fact := range facts {
		if strings.Contains(fact.Name, "/") || !strings.Contains(fact.Verbs, "create") || !strings.Contains(fact.Verbs, "get") {
			continue
		}
		// These subtests are not parallel: the APIService that the server creates for a definition can have the
		// same name as a recorded APIService.
		t.Run(fact.Key(), func(t *testing.T) {
			for _, scenario := range recorded[fact.Key()] {
				last := len(scenario.Steps) - 1
				create := scenario.Steps[last].Request
				scenario.Steps = scenario.Steps[:last] // create the dependencies of the object
				replayer.Replay(t.Context(), scenario, NewMemory())
				var object map[string]any
				if err := json.Unmarshal(create.Body, &object); err != nil {
					t.Fatal(err)
				}
				server.exportOne(t, create.Path, object)
			}
			if len(recorded[fact.Key()]) == 0 {
				server.exportOne(t, fact.collection("on-demand"), onDemandObject(t, dir, fact).Object)
			}
		})
	}
}

// recordedCreations returns, keyed by kind, the scenarios in a folder that create a minimal or rich object.
// Each scenario is truncated after the creation.
func recordedCreations(t *testing.T, folder string) map[string][]Scenario {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(recordingsDir, folder, "*.jsonl.gz"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	creations := map[string][]Scenario{}
	for _, path := range paths {
		for _, scenario := range readRecording(t, folder+"/"+strings.TrimSuffix(filepath.Base(path), ".jsonl.gz")).Scenarios {
			kind, what, _ := strings.Cut(scenario.Name, "/") // deployments.apps_v1/rich
			resource, version, _ := strings.Cut(kind, ".")
			if i := creation(scenario, resource); i >= 0 && (what == "minimal" || what == "rich") {
				scenario.Steps = scenario.Steps[:i+1]
				key := strings.Replace(version, "_", "/", 1) + "/" + resource
				creations[key] = append(creations[key], scenario)
			}
		}
	}
	return creations
}

// exportOne creates and exports an object, and sends the writes that must not change it.
func (f *fetcher) exportOne(t *testing.T, collection string, object map[string]any) {
	t.Helper()
	created := f.must(t, http.StatusCreated, http.MethodPost, collection, object)
	name := created["metadata"].(map[string]any)["name"].(string)
	path := collection + "/" + name
	read := f.writeBack(t, path)
	wantSame(t, "created and read", exported(created), exported(read))
	export := exported(read)

	apply := path + "?fieldManager=exporter&force=true&fieldValidation=Strict"
	applied := f.mustSend(t, http.StatusOK, http.MethodPatch, apply, "application/apply-patch+yaml", export)
	wantSame(t, "applied", export, exported(applied))
	again := f.mustSend(t, http.StatusOK, http.MethodPatch, apply, "application/apply-patch+yaml", export)
	if versionOf(again) != versionOf(applied) {
		t.Errorf("applied again, version %s became %s", versionOf(applied), versionOf(again))
	}

	f.remove(t, path)
	export = unbound(export)
	anew := f.must(t, http.StatusCreated, http.MethodPost, collection+"?fieldValidation=Strict", export)
	wantSame(t, "created from the export", export, unbound(exported(anew)))
	f.remove(t, path)
}

// writeBack returns an object as soon as a PUT and a patch of the object do not change it. It retries, because
// the server writes the status of some kinds after the creation.
func (f *fetcher) writeBack(t *testing.T, path string) (read map[string]any) {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		read = f.must(t, http.StatusOK, http.MethodGet, path, nil)
		if status, put := f.do(t, http.MethodPut, path+"?fieldValidation=Strict", read); status != http.StatusOK || !reflect.DeepEqual(put, read) {
			return fmt.Errorf("PUT of the unchanged object: status %d\n%v\nwant\n%v", status, put, read)
		}
		patched := f.mustSend(t, http.StatusOK, http.MethodPatch, path, "application/merge-patch+json", map[string]any{})
		if !reflect.DeepEqual(patched, read) {
			return fmt.Errorf("object after an empty patch:\n%v\nwant\n%v", patched, read)
		}
		return nil
	})
	return read
}

// exported returns a copy of an object without the fields that the server sets.
func exported(object map[string]any) map[string]any {
	export := maps.Clone(object)
	delete(export, "status")
	metadata := maps.Clone(object["metadata"].(map[string]any))
	for _, own := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
		delete(metadata, own)
	}
	export["metadata"] = metadata
	return export
}

// unbound removes from an export the fields that prevent its creation, also in kube-apiserver. In a Job, these
// are the selector and the labels that contain the uid of the Job. In a pod, these are the label keys of
// affinity terms, because the server has already merged these labels into the selectors of the terms.
func unbound(export map[string]any) map[string]any {
	spec, _ := export["spec"].(map[string]any)
	switch {
	case export["kind"] == "Job" && spec["manualSelector"] != true:
		return without(export, "selector", "controller-uid", "batch.kubernetes.io/controller-uid").(map[string]any)
	case export["kind"] == "Pod":
		return without(export, "matchLabelKeys", "mismatchLabelKeys").(map[string]any)
	}
	return export
}

// without returns a copy of a value without the members with the given names, at any depth.
func without(value any, names ...string) any {
	switch v := value.(type) {
	case map[string]any:
		object := map[string]any{}
		for key, member := range v {
			if !slices.Contains(names, key) {
				object[key] = without(member, names...)
			}
		}
		return object
	case []any:
		list := slices.Clone(v)
		for i := range list {
			list[i] = without(list[i], names...)
		}
		return list
	}
	return value
}

func versionOf(object map[string]any) any {
	return object["metadata"].(map[string]any)["resourceVersion"]
}

func wantSame(t *testing.T, what string, want, got map[string]any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%s it is\n%v\nwant\n%v", what, got, want)
	}
}

// remove clears the finalizers of an object, deletes the object, and waits until it no longer exists.
func (f *fetcher) remove(t *testing.T, path string) {
	t.Helper()
	f.mustSend(t, http.StatusOK, http.MethodPatch, path, "application/merge-patch+json", map[string]any{"metadata": map[string]any{"finalizers": nil}})
	f.do(t, http.MethodDelete, path+"?gracePeriodSeconds=0&propagationPolicy=Background", nil)
	testserver.Eventually(t, time.Minute, func() error {
		status, object := f.do(t, http.MethodGet, path, nil)
		if status == http.StatusNotFound {
			return nil
		}
		if object["kind"] == "Namespace" { // no controller finalizes it
			object["spec"] = map[string]any{}
			f.do(t, http.MethodPut, path+"/finalize", object)
		}
		return fmt.Errorf("status %d after the deletion of %s: %v", status, path, object)
	})
}
