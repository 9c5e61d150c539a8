package crds

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const anything = `{type: object, x-kubernetes-preserve-unknown-fields: true}`

// handlingObjects tests requests that all custom resources support.
var handlingObjects = []behavior{
	{"namespaced objects", objectsNamespaced},
	{"cluster-scoped objects", objectsOfCluster},
	{"the same name in two namespaces", objectsSameName},
	{"a different namespace in the object", objectsOtherNamespace},
	{"integers keep all digits", objectsIntegers},
	{"patches", objectsPatches},
	{"strategic merge patches are rejected", objectsStrategic},
	{"YAML requests and responses", objectsYAML},
	{"protobuf is rejected", objectsProtobuf},
	{"invalid documents are rejected", objectsBroken},
	{"list and watch all namespaces", objectsWatch},
	{"grace periods have no effect", objectsGrace},
	{"duplicate fields", objectsDuplicates},
	{"metadata-only reads", objectsMetadata},
	{"collections are deleted", objectsCollection},
}

func objectsNamespaced(t *testing.T, env *environment) {
	crd := define(t, "namespaced.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	events, err := notes.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	made := create(t, notes, object(t, crd, "a", `{spec: {text: x}}`))
	if made.GetNamespace() != "default" || made.GetUID() == "" || made.GetGeneration() != 1 || made.GetResourceVersion() == "" {
		t.Errorf("metadata %v", made.Object["metadata"])
	}
	if event := <-events.ResultChan(); event.Type != watch.Added {
		t.Errorf("%s instead of ADDED", event.Type)
	}
	list, err := notes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.GetKind() != "NoteList" || list.GetAPIVersion() != "namespaced.obj.example.com/v1" {
		t.Errorf("list %v, %v", list, err)
	}
	if _, err := notes.Create(t.Context(), object(t, crd, "a", `{}`), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("created twice: %v", err)
	}
	if err := notes.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if event := <-events.ResultChan(); event.Type != watch.Deleted {
		t.Errorf("%s instead of DELETED", event.Type)
	}
	if a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/a", nil); a.code != http.StatusNotFound || a.status().Message != `notes.namespaced.obj.example.com "a" not found` {
		t.Errorf("get the deleted object: %d %s, want 404", a.code, a.body)
	}
}

func objectsOfCluster(t *testing.T, env *environment) {
	crd := define(t, "cluster.obj.example.com", "Note", anything, clusterScoped)
	notes := env.install(t, crd)
	if made := create(t, notes, object(t, crd, "a", `{spec: {text: x}}`)); made.GetNamespace() != "" {
		t.Errorf("namespace %q", made.GetNamespace())
	}
	if made := create(t, notes, object(t, crd, "b", `{metadata: {name: b, namespace: default}}`)); made.GetNamespace() != "" {
		t.Errorf("namespace %q", made.GetNamespace())
	}
	if a := env.send(t, http.MethodGet, "/apis/cluster.obj.example.com/v1/namespaces/default/notes/a", nil); a.code != http.StatusNotFound {
		t.Errorf("in a namespace: %d %s", a.code, a.body)
	}
}

func objectsSameName(t *testing.T, env *environment) {
	crd := define(t, "same.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	env.send(t, http.MethodPost, "/api/v1/namespaces", []byte(`{"metadata":{"name":"other-same"}}`))
	create(t, notes, object(t, crd, "a", `{n: 1}`))
	path := "/apis/same.obj.example.com/v1/namespaces/other-same/notes"
	if a := env.send(t, http.MethodPost, path, encode(t, object(t, crd, "a", `{n: 2}`))); a.code != http.StatusCreated {
		t.Fatalf("create an object in another namespace: %d %s", a.code, a.body)
	}
	wantMembers(t, get(t, notes, "a"), `{n: 1}`)
	wantMembers(t, fromYAML(t, string(env.send(t, http.MethodGet, path+"/a", nil).body)), `{n: 2}`)
}

func objectsOtherNamespace(t *testing.T, env *environment) {
	crd := define(t, "elsewhere.obj.example.com", "Note", anything)
	env.install(t, crd)
	for _, text := range []string{`kind: Note, metadata: {name: a, namespace: kube-system}`, `kind: Other, metadata: {name: a}`} {
		obj := fromYAML(t, `{apiVersion: elsewhere.obj.example.com/v1, `+text+`}`)
		if a := env.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, obj)); a.code < 400 || a.code > 499 {
			t.Errorf("create an object of %s: %d %s, want a 4xx status", text, a.code, a.body)
		}
	}
	// A namespaced object cannot be created at a path without a namespace.
	if a := env.send(t, http.MethodPost, "/apis/elsewhere.obj.example.com/v1/notes", encode(t, object(t, crd, "a", `{}`))); a.code < 400 || a.code > 499 {
		t.Errorf("without a namespace: %d %s", a.code, a.body)
	}
}

func objectsIntegers(t *testing.T, env *environment) {
	crd := define(t, "integers.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	const text = `{spec: {large: 9007199254740993, whole: 1000000000000000000, fraction: 1.25, negative: -5}}`
	create(t, notes, object(t, crd, "a", text))
	wantMembers(t, patch(t, notes, "a", `{"metadata":{"labels":{"a":"b"}}}`), text)
	if body := string(env.send(t, http.MethodGet, pathOf(crd, "v1")+"/a", nil).body); !strings.Contains(body, "9007199254740993") || !strings.Contains(body, "1000000000000000000") {
		t.Errorf("a number has changed: %s", body)
	}
}

func objectsPatches(t *testing.T, env *environment) {
	crd := define(t, "patches.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	made := create(t, notes, object(t, crd, "a", `{spec: {a: 1, l: [1, 2]}}`))
	wantMembers(t, patch(t, notes, "a", `{"spec":{"a":null,"b":{"c":1},"l":[3]}}`), `{spec: {b: {c: 1}, l: [3]}}`)
	patched, err := notes.Patch(t.Context(), "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/b/c","value":1},{"op":"add","path":"/spec/l/-","value":4},{"op":"remove","path":"/spec/b"}]`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, patched, `{spec: {l: [3, 4]}}`)
	same := patch(t, notes, "a", `{"spec":{"l":[3,4]}}`)
	if same.GetResourceVersion() != patched.GetResourceVersion() {
		t.Error("a patch that changes nothing has written")
	}
	if same.GetGeneration() != 3 || made.GetGeneration() != 1 {
		t.Errorf("generation %d after two changes", same.GetGeneration())
	}
	_, err = notes.Patch(t.Context(), "a", types.JSONPatchType, []byte(`[{"op":"test","path":"/spec/l","value":1}]`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a test that fails: %v", err)
	}
	stale := made.DeepCopy()
	if _, err := notes.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old object written: %v", err)
	}
	stale.SetResourceVersion("")
	if _, err := notes.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an object without resourceVersion: %v", err)
	}
}

func objectsStrategic(t *testing.T, env *environment) {
	crd := define(t, "strategic.obj.example.com", "Note", anything)
	create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	a := env.send(t, http.MethodPatch, pathOf(crd, "v1")+"/a", []byte(`{}`), "Content-Type", "application/strategic-merge-patch+json")
	if a.code != http.StatusUnsupportedMediaType {
		t.Errorf("send a strategic merge patch: %d %s, want 415", a.code, a.body)
	}
}

func objectsYAML(t *testing.T, env *environment) {
	crd := define(t, "yaml.obj.example.com", "Note", anything, withStatus)
	env.install(t, crd)
	path, asYAML := pathOf(crd, "v1"), []string{"Content-Type", "application/yaml", "Accept", "application/yaml"}
	a := env.send(t, http.MethodPost, path, []byte("apiVersion: yaml.obj.example.com/v1\nkind: Note\nmetadata:\n  name: a\nspec:\n  count: 1\n"), asYAML...)
	if a.code != http.StatusCreated || !strings.HasPrefix(string(a.body), "apiVersion: yaml.obj.example.com/v1\n") {
		t.Fatalf("create an object from YAML: %d %s, want 201 in YAML", a.code, a.body)
	}
	for _, more := range []string{"", "/a", "/a/status"} {
		if a := env.send(t, http.MethodGet, path+more, nil, asYAML...); a.code != http.StatusOK || !strings.HasPrefix(string(a.body), "apiVersion: yaml.obj.example.com/v1\n") {
			t.Errorf("get %s as YAML: %d %s", path+more, a.code, a.body)
		}
	}
	text := strings.Replace(string(env.send(t, http.MethodGet, path+"/a", nil, asYAML...).body), "count: 1", "count: 2", 1)
	if a := env.send(t, http.MethodPut, path+"/a", []byte(text), asYAML...); a.code != http.StatusOK || !strings.Contains(string(a.body), "  count: 2\n") {
		t.Errorf("written: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodPut, path+"/a/status", []byte(strings.Replace(string(env.send(t, http.MethodGet, path+"/a", nil, asYAML...).body), "\nspec:", "\nstatus: {x: z}\nspec:", 1)), asYAML...); a.code != http.StatusOK || !strings.Contains(string(a.body), "  x: z\n") {
		t.Errorf("status written: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodPost, path, []byte("apiVersion: [\n"), asYAML...); a.code != http.StatusBadRequest || !strings.Contains(string(a.body), "kind: Status") {
		t.Errorf("broken YAML: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodGet, path+"?watch=1", nil, asYAML...); a.code != http.StatusNotAcceptable {
		t.Errorf("a watch in YAML: %d", a.code)
	}
}

func objectsProtobuf(t *testing.T, env *environment) {
	crd := define(t, "protobuf.obj.example.com", "Note", anything)
	create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	const protobuf = "application/vnd.kubernetes.protobuf"
	if a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/a", nil, "Accept", protobuf); a.code != http.StatusNotAcceptable {
		t.Errorf("read: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/a", nil, "Accept", protobuf+",application/json"); a.code != http.StatusOK {
		t.Errorf("read as either: %d %s", a.code, a.body)
	}
	for _, body := range []string{"", "k8s\x00", "k8s\x00\x0a\x05garbage", "nothing"} {
		if a := env.send(t, http.MethodPost, pathOf(crd, "v1"), []byte(body), "Content-Type", protobuf); a.code < 400 || a.code > 499 {
			t.Errorf("create an object from protobuf %q: %d %s, want a 4xx status", body, a.code, a.body)
		}
	}
}

func objectsBroken(t *testing.T, env *environment) {
	crd := define(t, "broken.obj.example.com", "Note", anything)
	env.install(t, crd)
	for _, body := range []string{
		``, `null`, `[]`, `"text"`, `{`, `{}`, `{"apiVersion":"broken.obj.example.com/v1"}`,
		`{"apiVersion":"broken.obj.example.com/v1","kind":"Note","metadata":5}`,
		`{"apiVersion":"broken.obj.example.com/v1","kind":"Note","metadata":{"name":5}}`,
		`{"apiVersion":"broken.obj.example.com/v1","kind":"Note","metadata":{"name":"a","labels":{"a":1}}}`,
		`{"apiVersion":"broken.obj.example.com/v1","kind":"Note","metadata":{"name":"a","ownerReferences":[{"uid":1}]}}`,
		`{"apiVersion":"broken.obj.example.com/v2","kind":"Note","metadata":{"name":"a"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`,
		`{"apiVersion":"broken.obj.example.com/v1","kind":"Note","metadata":{}}`,
		`{"apiVersion":"broken.obj.example.com/v1","kind":"Note","metadata":{"name":"a","finalizers":["no good"]}}`,
		strings.Repeat(`{"a":`, 20000),
	} {
		a := env.send(t, http.MethodPost, pathOf(crd, "v1"), []byte(body))
		if s := a.status(); a.code < 400 || a.code > 499 || s.Message == "" {
			t.Errorf("create an object from %.100s: %d %s, want a 4xx status with a message", body, a.code, a.body)
		}
	}
}

func objectsWatch(t *testing.T, env *environment) {
	crd := define(t, "watch.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{}`))
	all := env.dynamic.Resource(crdGVR(crd))
	list, err := all.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("list in all namespaces: %v, %v; want one object", list, err)
	}
	events, err := all.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	create(t, notes, object(t, crd, "b", `{}`))
	if event := <-events.ResultChan(); event.Type != watch.Added {
		t.Errorf("event of the creation: %v, want ADDED", event)
	}
	patch(t, notes, "a", `{"x":1}`)
	if event := <-events.ResultChan(); event.Type != watch.Modified {
		t.Errorf("event of the patch: %v, want MODIFIED", event)
	}
}

func objectsGrace(t *testing.T, env *environment) {
	crd := define(t, "grace.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{}`))
	seconds := int64(300)
	if err := notes.Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: &seconds}); err != nil {
		t.Fatal(err)
	}
	if _, err := notes.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get after a deletion with a grace period: %v, want NotFound", err)
	}
}

func objectsDuplicates(t *testing.T, env *environment) {
	crd := define(t, "twice.obj.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}`)
	env.install(t, crd)
	body := []byte(`{"apiVersion":"twice.obj.example.com/v1","kind":"Note","metadata":{"name":"a"},"spec":{"a":1,"a":2,"b":3}}`)
	const path = "?dryRun=All&fieldValidation="
	if a := env.send(t, http.MethodPost, pathOf(crd, "v1")+path+"Strict", body); a.code != http.StatusBadRequest || !strings.HasSuffix(a.status().Message, `strict decoding error: duplicate field "spec.a", unknown field "spec.b"`) {
		t.Errorf("create with strict field validation: %d %s, want 400 for both fields", a.code, a.body)
	}
	if a := env.send(t, http.MethodPost, pathOf(crd, "v1")+path+"Warn", body); a.code != http.StatusCreated || len(a.warnings) != 2 {
		t.Errorf("create with field validation Warn: %d with warnings %q, want 201 with 2 warnings", a.code, a.warnings)
	}
	if a := env.send(t, http.MethodPost, pathOf(crd, "v1")+path+"Ignore", body); a.code != http.StatusCreated || len(a.warnings) != 0 {
		t.Errorf("create with field validation Ignore: %d with warnings %q, want 201 without warnings", a.code, a.warnings)
	}
}

func objectsMetadata(t *testing.T, env *environment) {
	crd := define(t, "partial.obj.example.com", "Note", anything)
	create(t, env.install(t, crd), object(t, crd, "a", `{spec: {text: hidden}}`))
	for _, format := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/a", nil, "Accept", format+";as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		if a.code != http.StatusOK || strings.Contains(string(a.body), "hidden") {
			t.Errorf("get metadata as %s: %d %s, want no spec", format, a.code, a.body)
		}
	}
}

func objectsCollection(t *testing.T, env *environment) {
	crd := define(t, "many.obj.example.com", "Note", anything)
	notes := env.install(t, crd)
	for _, name := range []string{"a", "b", "c"} {
		create(t, notes, object(t, crd, name, `{metadata: {name: `+name+`, labels: {l: `+name+`}}}`))
	}
	if err := notes.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "l!=b"}); err != nil {
		t.Fatal(err)
	}
	list, err := notes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "b" {
		t.Errorf("list after the deletion of the collection: %v, %v; want only b", list, err)
	}
}
