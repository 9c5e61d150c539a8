package crds

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// lifecycle tests names, updates and deletion of definitions.
var lifecycle = []behavior{
	{"several definitions of a group", liveSeveral},
	{"deletion and new creation", liveAgain},
	{"new creation with another scope", liveScope},
	{"name conflicts", liveNames},
	{"changes of names", liveRenamed},
	{"immutable fields", liveImmutable},
	{"objects with finalizers delay the deletion", liveFinalizers},
	{"no creation during the deletion", liveTerminating},
	{"changes during reads and writes", liveChanged},
	{"schema changes and stored objects", liveStored},
	{"approval of Kubernetes groups", liveApproval},
	{"definitions of built-in resources", liveBuiltIn},
	{"invalid requests", liveRequests},
	{"discovery", liveDiscovered},
	{"OpenAPI v2", liveOpenAPI},
	{"watches of definitions", liveWatched},
	{"established definitions are served", liveServed},
	{"discovered definitions are established", liveDiscoveredEstablished},
}

func crdGVR(crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: crd.Spec.Group, Version: "v1", Resource: crd.Spec.Names.Plural}
}

func liveSeveral(t *testing.T, env *environment) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range []string{"Curlet", "Noxu", "Zebra"} {
		crd := define(t, "several.live.example.com", kind, anything)
		crds = append(crds, crd)
		create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	}
	if a := env.send(t, http.MethodDelete, definitionsPath+"/"+crds[0].Name, nil); a.code != http.StatusOK {
		t.Fatal(a.code)
	}
	awaitGone(t, env.definitions, crds[0].Name)
	for _, crd := range crds[1:] {
		get(t, env.resource(crd, "v1"), "a")
	}
	a := env.send(t, http.MethodGet, "/apis/several.live.example.com/v1", nil)
	if strings.Contains(string(a.body), "curlets") || !strings.Contains(string(a.body), "zebras") {
		t.Errorf("resources after the deletion of curlets: %s, want zebras only", a.body)
	}
}

func liveAgain(t *testing.T, env *environment) {
	crd := define(t, "again.live.example.com", "Note", anything)
	for range 3 {
		notes := env.install(t, crd)
		list, err := notes.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Fatalf("list of a new definition: %v, %v; want no objects", list, err)
		}
		create(t, notes, object(t, crd, "a", `{}`))
		if err := env.definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, env.definitions, crd.Name)
		if _, err := notes.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get an object of a deleted definition: %v, want NotFound", err)
		}
	}
}

func liveScope(t *testing.T, env *environment) {
	crd := define(t, "scope.live.example.com", "Note", anything)
	create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	if err := env.definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, env.definitions, crd.Name)
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	made := create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	if made.GetNamespace() != "" {
		t.Errorf("namespace %q", made.GetNamespace())
	}
}

func liveNames(t *testing.T, env *environment) {
	first := define(t, "taken.live.example.com", "Thing", anything)
	env.install(t, first)
	second := define(t, "taken.live.example.com", "Stuff", anything)
	second.Spec.Names.ShortNames, second.Spec.Names.Singular, second.Spec.Names.ListKind = []string{"things"}, "stuff", "StuffList"
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+second.Name, nil) })
	if a := env.send(t, http.MethodPost, definitionsPath, encode(t, second)); a.code != http.StatusCreated {
		t.Fatalf("create the second definition: %d %s", a.code, a.body)
	}
	crd := env.await(t, second.Name, apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse)
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && (c.Reason != "ShortNamesConflict" || c.Message != `"things" is already in use`) ||
			c.Type == apiextensionsv1.Established && c.Status != apiextensionsv1.ConditionFalse {
			t.Errorf("condition %+v, want ShortNamesConflict and Established False", c)
		}
	}
	if a := env.send(t, http.MethodGet, pathOf(second, "v1"), nil); a.code != http.StatusNotFound {
		t.Errorf("served: %d", a.code)
	}
	if err := env.definitions.Delete(t.Context(), first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.await(t, second.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	create(t, env.resource(second, "v1"), object(t, second, "a", `{}`))
}

func liveRenamed(t *testing.T, env *environment) {
	first := define(t, "renamed.live.example.com", "Thing", anything)
	env.install(t, first)
	second := define(t, "renamed.live.example.com", "Stuff", anything)
	second.Spec.Names.Singular, second.Spec.Names.ListKind = "stuff", "StuffList"
	env.install(t, second)
	env.mustChange(t, second.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.ShortNames = []string{"thing"} })
	crd := env.await(t, second.Name, apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse)
	if len(crd.Status.AcceptedNames.ShortNames) != 0 {
		t.Errorf("accepted %+v", crd.Status.AcceptedNames)
	}
	// An established definition is still served under its old names.
	create(t, env.resource(second, "v1"), object(t, second, "a", `{}`))
	env.mustChange(t, second.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.ShortNames = []string{"st"} })
	eventually(t, func() error {
		if crd := env.definition(t, second.Name); !slices.Equal(crd.Status.AcceptedNames.ShortNames, []string{"st"}) {
			return fmt.Errorf("accepted %+v", crd.Status.AcceptedNames)
		}
		return nil
	})
}

func liveImmutable(t *testing.T, env *environment) {
	crd := define(t, "fixed.live.example.com", "Note", anything)
	env.install(t, crd)
	for field, edit := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"spec.scope":      clusterScoped,
		"spec.names.kind": func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.Kind = "Other" },
		"spec.group":      func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Group = "other.example.com" },
		"spec.names.plural": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Names.Plural = "others"
		},
	} {
		if a := env.change(t, crd.Name, edit); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), `"field":"`+field+`"`) {
			t.Errorf("change %s: %d %s, want 422 for the field", field, a.code, a.body)
		}
	}
}

func liveFinalizers(t *testing.T, env *environment) {
	crd := define(t, "held.live.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "held", `{metadata: {name: held, finalizers: [example.com/hold]}}`))
	create(t, notes, object(t, crd, "free", `{}`))
	if err := notes.Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := get(t, notes, "held")
	if held.GetDeletionTimestamp() == nil || held.GetGeneration() != 2 {
		t.Errorf("metadata %v", held.Object["metadata"])
	}
	if err := env.definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, notes, "free")
	ending := env.await(t, crd.Name, apiextensionsv1.Terminating, apiextensionsv1.ConditionTrue)
	if !slices.Contains(ending.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		t.Errorf("finalizers %v", ending.Finalizers)
	}
	eventually(t, func() error {
		for _, c := range env.definition(t, crd.Name).Status.Conditions {
			if c.Type == apiextensionsv1.Terminating && c.Reason == "InstanceDeletionInProgress" && c.Message == "CustomResource deletion is in progress" {
				return nil
			}
		}
		return fmt.Errorf("the condition does not say that objects are waited for")
	})
	patch(t, notes, "held", `{"metadata":{"finalizers":null}}`)
	awaitGone(t, env.definitions, crd.Name)
}

func liveTerminating(t *testing.T, env *environment) {
	crd := define(t, "ending.live.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "held", `{metadata: {name: held, finalizers: [example.com/hold]}}`))
	if err := env.definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	const why = `notes.ending.live.example.com "late" is forbidden: create not allowed while custom resource definition is terminating`
	if a := env.send(t, http.MethodPost, pathOf(crd, "v1"), encode(t, object(t, crd, "late", `{}`))); a.code != http.StatusForbidden || a.status().Message != why {
		t.Errorf("created: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodGet, "/apis/"+crd.Spec.Group+"/v1", nil); strings.Contains(string(a.body), "create") || !strings.Contains(string(a.body), "deletecollection") {
		t.Errorf("discovery: %s", a.body)
	}
	path := pathOf(crd, "v1") + "/%s?fieldManager=m&force=true"
	if a := env.send(t, http.MethodPatch, fmt.Sprintf(path, "late"), encode(t, object(t, crd, "late", `{}`)), "Content-Type", "application/apply-patch+yaml"); a.code != http.StatusForbidden || a.status().Message != why {
		t.Errorf("create an object by apply: %d %s", a.code, a.body)
	}
	// The remaining objects can still be updated, so that clients can remove finalizers.
	if a := env.send(t, http.MethodPatch, fmt.Sprintf(path, "held"), encode(t, object(t, crd, "held", `{spec: {x: 1}}`)), "Content-Type", "application/apply-patch+yaml"); a.code != http.StatusOK {
		t.Errorf("apply to a remaining object: %d %s", a.code, a.body)
	}
	patch(t, notes, "held", `{"metadata":{"finalizers":null}}`)
	awaitGone(t, env.definitions, crd.Name)
}

// liveChanged updates a definition while clients write objects of the definition.
func liveChanged(t *testing.T, env *environment) {
	crd := define(t, "busy.live.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {n: {type: integer}}}}}`)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{spec: {n: 0}}`))
	var writers sync.WaitGroup
	for i := range 3 {
		writers.Go(func() {
			for n := range 20 {
				body := fmt.Sprintf(`{"spec":{"n":%d}}`, n*3+i)
				if _, err := notes.Patch(t.Context(), "a", mergePatch, []byte(body), metav1.PatchOptions{}); err != nil {
					t.Errorf("patch while the definition changes: %v", err)
				}
				if _, err := notes.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
					t.Errorf("read while the definition changes: %v", err)
				}
			}
		})
	}
	for i := range 10 {
		env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = fmt.Sprint(i)
		})
	}
	writers.Wait()
}

func liveStored(t *testing.T, env *environment) {
	crd := define(t, "stored.live.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{spec: {old: text, n: text}}`))
	stricter := define(t, "stored.live.example.com", "Note", `{type: object, properties: {spec: {type: object, properties: {n: {type: integer}, more: {type: string, default: d}}}}}`)
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = stricter.Spec.Versions })
	wantMembers(t, get(t, notes, "a"), `{spec: {n: text, more: d}}`)
	if _, err := notes.Create(t.Context(), object(t, crd, "b", `{spec: {n: text}}`), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("create an object that violates the new schema: %v, want Invalid", err)
	}
	wantMembers(t, patch(t, notes, "a", `{"spec":{"n":1}}`), `{spec: {n: 1, more: d}}`)
}

func liveApproval(t *testing.T, env *environment) {
	crd := define(t, "live.x-k8s.io.k8s.io", "Note", anything)
	if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "api-approved.kubernetes.io") {
		t.Errorf("without: %d %s", a.code, a.body)
	}
	crd.Annotations = map[string]string{"api-approved.kubernetes.io": "unapproved, experimental-only"}
	env.install(t, crd)
	env.await(t, crd.Name, apiextensionsv1.KubernetesAPIApprovalPolicyConformant, apiextensionsv1.ConditionFalse)
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations["api-approved.kubernetes.io"] = "https://github.com/kubernetes/kubernetes/pull/78458"
	})
	env.await(t, crd.Name, apiextensionsv1.KubernetesAPIApprovalPolicyConformant, apiextensionsv1.ConditionTrue)
}

// liveBuiltIn checks that a definition with the same name as a built-in resource is rejected. The objects of
// both would be stored under the same keys.
func liveBuiltIn(t *testing.T, env *environment) {
	for group, kind := range map[string]string{"apiextensions.k8s.io": "CustomResourceDefinition", "apiregistration.k8s.io": "APIService"} {
		crd := define(t, group, kind, anything)
		crd.Spec.Scope = apiextensionsv1.ClusterScoped
		crd.Annotations = map[string]string{"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/78458"}
		if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusUnprocessableEntity {
			t.Errorf("create a definition of %s: %d %s, want 422", kind, a.code, a.body)
		}
	}
	if a := env.send(t, http.MethodGet, "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps", nil); a.code != http.StatusOK {
		t.Errorf("get a built-in APIService: %d %s", a.code, a.body)
	}
}

// liveRequests checks that a custom object must have an apiVersion, that HEAD is allowed, and that a request
// for an unknown subresource results in a Status.
func liveRequests(t *testing.T, env *environment) {
	crd := define(t, "requests.live.example.com", "Note", anything)
	create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	const notes = "/apis/requests.live.example.com/v1/namespaces/default/notes"
	const jsonPatch = "application/json-patch+json"
	for _, tt := range []struct {
		method, path, body, contentType string
		code                            int
		want                            string
	}{
		{http.MethodPost, notes, `{"kind":"Note","metadata":{"name":"b"}}`, "application/json", http.StatusBadRequest, "the API version in the data () does not match"},
		{http.MethodPut, notes + "/a", `{"kind":"Note","metadata":{"name":"a"}}`, "application/json", http.StatusBadRequest, "the API version in the data () does not match"},
		{http.MethodPatch, notes + "/a", `[{"op":"remove","path":"/apiVersion"}]`, jsonPatch, http.StatusUnprocessableEntity, "the API version in the data () does not match"},
		{http.MethodHead, notes, "", "", http.StatusOK, ""},
		{http.MethodHead, notes + "/a", "", "", http.StatusOK, ""},
		{http.MethodHead, notes + "/b", "", "", http.StatusNotFound, ""},
		{http.MethodGet, notes + "/a/nope", "", "", http.StatusNotFound, `"kind":"Status"`},
	} {
		a := env.send(t, tt.method, tt.path, []byte(tt.body), "Content-Type", tt.contentType)
		if a.code != tt.code || !strings.Contains(string(a.body), tt.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", tt.method, tt.path, tt.body, a.code, a.body, tt.code, tt.want)
		}
	}
}

func liveDiscovered(t *testing.T, env *environment) {
	crd := define(t, "found.live.example.com", "Note", anything, withStatus, withVersion(t, "v1beta1", anything))
	env.install(t, crd)
	group := env.send(t, http.MethodGet, "/apis/found.live.example.com", nil).value(t)
	if preferred := group["preferredVersion"].(map[string]any)["version"]; preferred != "v1" || len(group["versions"].([]any)) != 2 {
		t.Errorf("group %v, want 2 versions and v1 preferred", group)
	}
	for path, want := range map[string]string{
		"/apis":                           `"found.live.example.com"`,
		"/apis/found.live.example.com/v1": `{"name":"notes/status","singularName":"","namespaced":true,"kind":"Note","verbs":["get","patch","update"]}`,
	} {
		if a := env.send(t, http.MethodGet, path, nil); !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s is missing", path, want)
		}
	}
	a := env.send(t, http.MethodGet, "/apis", nil, "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	if !strings.Contains(string(a.body), `"name":"found.live.example.com"`) {
		t.Error("not in aggregated discovery")
	}
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[1].Served = false })
	if a := env.send(t, http.MethodGet, "/apis/found.live.example.com/v1beta1", nil); a.code != http.StatusNotFound {
		t.Errorf("a version that is no longer served: %d", a.code)
	}
}

func liveWatched(t *testing.T, env *environment) {
	crd := define(t, "watched.live.example.com", "Note", anything)
	events, err := env.definitions.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + crd.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	env.install(t, crd)
	if err := env.definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var types []watch.EventType
	for event := range events.ResultChan() {
		types = append(types, event.Type)
		if event.Type == watch.Deleted {
			break
		}
	}
	if types[0] != watch.Added || len(types) < 4 {
		t.Errorf("events %v, want at least 4, the first ADDED", types)
	}
}

// liveDiscoveredEstablished checks that, as soon as discovery contains a definition, an update of the
// definition does not conflict with a status write of the server.
func liveDiscoveredEstablished(t *testing.T, env *environment) {
	for i := range 40 {
		crd := define(t, fmt.Sprintf("discovered%d.live.example.com", i), "Note", anything)
		t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
		if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusCreated {
			t.Fatalf("create %s: %d %s", crd.Name, a.code, a.body)
		}
		eventually(t, func() error {
			if a := env.send(t, http.MethodGet, "/apis/"+crd.Spec.Group+"/v1", nil); a.code != http.StatusOK {
				return fmt.Errorf("discovery: %d", a.code)
			}
			return nil
		})
		stored := env.definition(t, crd.Name)
		stored.APIVersion, stored.Kind = crd.APIVersion, crd.Kind
		stored.Labels = map[string]string{"changed": "yes"}
		if a := env.send(t, http.MethodPut, definitionsPath+"/"+crd.Name, encode(t, stored)); a.code != http.StatusOK {
			t.Fatalf("try %d: %d %s", i, a.code, a.body)
		}
	}
}

// liveServed creates an object of each definition as soon as the definition is established.
func liveServed(t *testing.T, env *environment) {
	for i := range 20 {
		crd := define(t, fmt.Sprintf("served%d.live.example.com", i), "Note", anything)
		create(t, env.install(t, crd), object(t, crd, "a", `{}`))
	}
}
