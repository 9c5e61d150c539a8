package custom

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

func definitionKind() *codec.Kind {
	return &codec.Kind{StoredAsJSON: true, Hub: &codec.Version{
		GVK: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		New: func() codec.Object { return new(apiextensionsv1.CustomResourceDefinition) },
	}}
}

// sourceOver returns a source that stores definitions and objects in a backend.
func sourceOver(t testing.TB, backend kv.Backend, idle time.Duration) *Source {
	t.Helper()
	open := storagetest.Opener(backend)
	definitions, err := open(storage.Spec{
		Path: "apiextensions.k8s.io/customresourcedefinitions", Kind: definitionKind(), Resource: apiextensionsv1.Resource("customresourcedefinitions"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Definitions: definitions, Idle: idle,
		Storage: open,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a source until the test ends.
func (s *Source) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { s.Reflector().Run(ctx) })
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); group.Wait(); s.Wait() })
}

func widgetDefinition(group string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	text := fmt.Sprintf(`{"metadata":{"name":"widgets.%s","uid":"u-%s","generation":1},"spec":{"group":%q,"scope":"Cluster",
"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"conversion":{"strategy":"None"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object"}}}}}]}}`, group, group, group)
	if err := json.Unmarshal([]byte(text), crd); err != nil {
		panic(err)
	}
	return crd
}

func (s *Source) awaitServed(t testing.TB, group string) *rest.Resource {
	t.Helper()
	until := time.Now().Add(time.Minute)
	for {
		if r := s.Find(schema.GroupVersion{Group: group, Version: "v1"}, "widgets", ""); r != nil {
			return r
		}
		if time.Now().After(until) {
			t.Fatalf("the widgets of %s are not served", group)
		}
		runtime.Gosched()
	}
}

// openHandlerOf returns a weak pointer to the cached data of version v1, or the zero pointer if the version is
// not in use.
func (s *Source) openHandlerOf(group string) weak.Pointer[openHandler] {
	f := s.current.Load().find(group, "widgets").derived
	f.mu.Lock()
	defer f.mu.Unlock()
	if in := f.mu.versions["v1"]; in != nil {
		return weak.Make(in.opened.Load())
	}
	return weak.Pointer[openHandler]{}
}

// TestIdle checks that cached data is dropped after a period without use, unless there is a watch,
// and computed again on the next use.
func TestIdle(t *testing.T) {
	t.Parallel()
	const idle = time.Hour
	s := sourceOver(t, storagetest.InMemory(t), idle)
	s.run(t)
	for _, group := range []string{"used.example.com", "watched.example.com", "untouched.example.com"} {
		if _, err := s.config.Definitions.Create(t.Context(), widgetDefinition(group), storage.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	use := func(group string) {
		t.Helper()
		if _, err := s.awaitServed(t, group).Storage.(rest.Lister).List(t.Context(), "", rest.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for s.current.Load().entries.Len() < 3 { // awaitServed would use the third definition
		if t.Context().Err() != nil {
			t.Fatal("not all definitions were observed")
		}
		runtime.Gosched()
	}
	use("used.example.com")
	w, err := s.awaitServed(t, "watched.example.com").Storage.(rest.Watcher).Watch(t.Context(), "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string]bool{"used.example.com": true, "watched.example.com": true, "untouched.example.com": false} {
		if in := s.openHandlerOf(group); (in != weak.Pointer[openHandler]{}) != want {
			t.Errorf("%s is in use: %v", group, !want)
		}
	}
	used := s.openHandlerOf("used.example.com")

	s.sweep(time.Now())
	if s.openHandlerOf("used.example.com") != used {
		t.Error("dropped after a recent use")
	}
	s.sweep(time.Now().Add(idle + time.Minute))
	if s.openHandlerOf("used.example.com") != (weak.Pointer[openHandler]{}) {
		t.Error("retained without use")
	}
	if s.openHandlerOf("watched.example.com") == (weak.Pointer[openHandler]{}) {
		t.Error("dropped despite a watch")
	}
	for until := time.Now().Add(time.Minute); used.Value() != nil; runtime.GC() {
		if time.Now().After(until) {
			t.Fatal("dropped data is still referenced")
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	s.sweep(time.Now().Add(idle + time.Minute))
	if s.openHandlerOf("watched.example.com") != (weak.Pointer[openHandler]{}) {
		t.Error("retained after the end of the watch")
	}
	use("used.example.com")
}

// TestEstablishing checks that writing the status preserves all other bytes of the stored object.
func TestEstablishing(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), 0)
	crd := widgetDefinition("a.example.com")
	crd.Annotations = map[string]string{"note": "a <b> \"c\""}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "é & ü"
	if _, err := s.config.Definitions.Create(t.Context(), crd, storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.run(t)
	s.awaitServed(t, "a.example.com")
	name := types.NamespacedName{Name: crd.Name}
	for until := time.Now().Add(time.Minute); ; runtime.Gosched() {
		record, err := s.config.Definitions.Get(t.Context(), name, storage.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj, err := record.Shared()
		if err != nil {
			t.Fatal(err)
		}
		stored := obj.(*apiextensionsv1.CustomResourceDefinition)
		if len(stored.Status.Conditions) == 0 {
			if time.Now().After(until) {
				t.Fatal("no condition was written")
			}
			continue
		}
		again, err := record.Kind().EncodeStored(t.Context(), stored)
		if err != nil || string(again) != string(record.Stored()) {
			t.Errorf("the stored bytes differ from the encoding: %v\n%s\n%s", err, record.Stored(), again)
		}
		stored.Status, stored.ManagedFields, stored.ResourceVersion = apiextensionsv1.CustomResourceDefinitionStatus{}, nil, ""
		want := crd.DeepCopy()
		want.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		want.ResourceVersion, want.TypeMeta = "", metav1.TypeMeta{}
		stored.TypeMeta = metav1.TypeMeta{}
		before, _ := json.Marshal(want)
		after, _ := json.Marshal(stored)
		if string(before) != string(after) {
			t.Errorf("establishing changed more than the status:\n%s\n%s", before, after)
		}
		return
	}
}

// TestManyInOneGroup checks that each name of a group with many definitions belongs to at most one of them.
func TestManyInOneGroup(t *testing.T) {
	t.Parallel()
	now := newSnapshot()
	const many = 2000
	for i := range many {
		name := fmt.Sprintf("kind%ds", i)
		e := &entry{name: name + ".example.com", group: "example.com", revision: int64(i), requested: names{plural: name, kind: fmt.Sprint("Kind", i)}}
		assigned, conflict := now.namesOfOthers(e.group, e.name).assign(e.requested, names{})
		if conflict != nil {
			t.Fatal(conflict)
		}
		e.accepted = assigned
		now = now.with(e.group, name, e)
	}
	if n := now.entries.Len(); n != many {
		t.Errorf("%d entries", n)
	}
	late := names{plural: "late", kind: "Kind7"}
	if _, conflict := now.namesOfOthers("example.com", "late.example.com").assign(late, names{}); reasonOf(conflict) != "KindConflict" {
		t.Errorf("a kind was assigned twice: %v", conflict)
	}
	now = now.with("example.com", "kind7s", nil)
	if _, conflict := now.namesOfOthers("example.com", "late.example.com").assign(late, names{}); conflict != nil {
		t.Errorf("a released kind was not assigned: %v", conflict)
	}
	for i := range many {
		now = now.with("example.com", fmt.Sprintf("kind%ds", i), nil)
	}
	if now.entries.Len() != 0 || now.reservations.Len() != 0 {
		t.Errorf("%d entries and %d names remain", now.entries.Len(), now.reservations.Len())
	}
}

// TestSchemaOnUse checks that a list without objects does not compile the schema, and that a creation does.
func TestSchemaOnUse(t *testing.T) {
	t.Parallel()
	s := sourceOver(t, storagetest.InMemory(t), time.Hour)
	s.run(t)
	if _, err := s.config.Definitions.Create(t.Context(), widgetDefinition("example.com"), storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	widgets := s.awaitServed(t, "example.com")
	isCompiled := func() bool { return widgets.Storage.(instances).handler.compiled.Load() != nil }
	if _, err := widgets.Storage.(rest.Lister).List(t.Context(), "", rest.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if isCompiled() {
		t.Error("an empty list compiled the schema")
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "metadata": map[string]any{"name": "w"}}}
	if _, err := widgets.Version.Accept(widget, false); err != nil {
		t.Fatal(err)
	}
	if _, err := widgets.Storage.(rest.Creater).Create(t.Context(), widget, nil, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !isCompiled() {
		t.Error("an object was written without the schema")
	}
}
