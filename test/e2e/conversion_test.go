package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"mainstay.dev/mainstay/test/testserver"
)

// TestConversionWebhooks uses real clients to test custom resources that a webhook converts.
func TestConversionWebhooks(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--watch-cache=false"}} {
		srv := testserver.New(t, testserver.Options{Flags: flags})
		for _, b := range []struct {
			name string
			run  func(*testing.T, *clients, *converted)
		}{
			{"reading", convertedReads},
			{"pages", convertedPages},
			{"selecting", convertedSelections},
			{"tables and metadata", convertedViews},
			{"writing", convertedWrites},
			{"status and scale", convertedSubresources},
			{"watching", convertedWatches},
			{"a failing watch", failingWatches},
			{"storage migration", migratedStorage},
			{"change of the webhook", redefinedWebhook},
			{"a failing webhook", failingWebhook},
			{"an unreachable webhook", unreachableWebhook},
			{"long lists", longLists},
			{"a slow webhook", slowWebhook},
			{"unreadable certificates", unreadableCertificates},
		} {
			t.Run(strings.Join(append(flags, b.name), " "), func(t *testing.T) {
				t.Parallel()
				c := newClients(t, srv.RESTConfig())
				b.run(t, c, newConverted(t, c))
			})
		}
	}
}

// cached reports whether the server that the test uses caches conversions.
func cached(t *testing.T) bool { return !strings.Contains(t.Name(), "watch-cache=false") }

// checkReviews checks the conversion reviews since its last call. want contains the number of objects in each
// review.
func checkReviews(t *testing.T, e *converted, what string, want ...int) {
	t.Helper()
	if got := e.hook.asked(); !slices.Equal(got, want) {
		t.Errorf("%s: reviews of %v objects, want %v", what, got, want)
	}
}

func convertedReads(t *testing.T, _ *clients, e *converted) {
	e.create(t, "a", "b", "c")
	checkReviews(t, e, "writing what is stored")
	got, err := e.v2.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || specOf(got) != "{host:host-a,port:1}" || got.GetAPIVersion() != e.resource.GroupVersion().String() {
		t.Fatalf("get in v2: %v, %v", got, err)
	}
	checkReviews(t, e, "get", 1)
	for i := range 2 {
		list, err := e.v2.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 3 || specOf(&list.Items[2]) != "{host:host-c,port:1}" {
			t.Fatalf("list in v2: %v, %v; want 3 converted objects", list, err)
		}
		switch {
		case !cached(t):
			checkReviews(t, e, "list", 3)
		case i == 0:
			checkReviews(t, e, "list of which one was read before", 2)
		default:
			checkReviews(t, e, "list, again")
		}
	}
	// There are stored objects in both versions. Only objects that are not stored in the requested version are
	// converted.
	e.redefine(t, func(spec map[string]any) {
		versions := spec["versions"].([]any)
		versions[0].(map[string]any)["storage"], versions[1].(map[string]any)["storage"] = false, true
	})
	if _, err := e.v2.Create(t.Context(), e.address("v2", "d", "x", "2"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	checkReviews(t, e, "writing what is stored now")
	for client, want := range map[string]int{"v1": 1, "v2": 3} {
		resource := e.v1
		if client == "v2" {
			resource = e.v2
		}
		list, err := resource.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 4 {
			t.Fatal(err)
		}
		checkReviews(t, e, "mixed list in "+client, want)
	}
}

func convertedPages(t *testing.T, _ *clients, e *converted) {
	e.create(t, "a", "b", "c", "d", "e")
	var names []string
	options := metav1.ListOptions{Limit: 2}
	for {
		list, err := e.v2.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		checkReviews(t, e, "page", len(list.Items))
		for _, item := range list.Items {
			names = append(names, item.GetName())
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	if got := strings.Join(names, ""); got != "abcde" {
		t.Errorf("pages of %s", got)
	}
}

func convertedSelections(t *testing.T, _ *clients, e *converted) {
	e.create(t, "a", "b", "c")
	for _, test := range []struct {
		options metav1.ListOptions
		want    int
	}{
		{metav1.ListOptions{FieldSelector: "spec.host=host-b"}, 1},
		{metav1.ListOptions{LabelSelector: "converted-to=v2"}, 3},
		{metav1.ListOptions{LabelSelector: "converted-to=v1"}, 0},
		{metav1.ListOptions{LabelSelector: "converted-to=v2", Limit: 2}, 2},
	} {
		list, err := e.v2.List(t.Context(), test.options)
		if err != nil || len(list.Items) != test.want {
			t.Errorf("list with %+v: %v, %v; want %d objects", test.options, list, err, test.want)
		}
	}
	w, err := e.v2.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.host=host-b"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expectEvent(t, w, watch.Added, "{host:host-b,port:1}")
	patch := []byte(`{"spec":{"hostPort":"elsewhere:1"}}`)
	if _, err := e.v1.Patch(t.Context(), "b", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEvent(t, w, watch.Deleted, "{host:host-b,port:1}")
}

// expectEvent checks the type and spec of the next event of a watch. It skips bookmarks.
func expectEvent(t *testing.T, w watch.Interface, kind watch.EventType, spec string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				t.Fatalf("the watch ended before %s %s", kind, spec)
			}
			if event.Type == watch.Bookmark {
				continue
			}
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type != kind || specOf(obj) != spec {
				t.Fatalf("%s %v, want %s %s", event.Type, event.Object, kind, spec)
			}
			return
		case <-timeout:
			t.Fatalf("no %s %s", kind, spec)
		}
	}
}

func convertedViews(t *testing.T, c *clients, e *converted) {
	e.create(t, "a")
	meta, err := c.metadata.Resource(e.resource).Namespace(c.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(meta.Items) != 1 || meta.Items[0].Labels["converted-to"] != "v2" {
		t.Errorf("metadata: %+v, %v", meta, err)
	}
	raw, err := c.kube.Discovery().RESTClient().Get().SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		AbsPath("/apis", e.resource.Group, "v2", "namespaces", c.namespace, "addresses").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil || len(table.Rows) != 1 || fmt.Sprint(table.Rows[0].Cells) != "[a host-a]" {
		t.Errorf("table: %s, %v", raw, err)
	}
}

func convertedWrites(t *testing.T, _ *clients, e *converted) {
	ctx := t.Context()
	created, err := e.v2.Create(ctx, e.address("v2", "a", "h", "1"), metav1.CreateOptions{})
	if err != nil || specOf(created) != "{host:h,port:1}" || created.GetLabels()["converted-to"] != "v2" {
		t.Fatalf("create: %v, %v", created, err)
	}
	checkReviews(t, e, "create in v2: to what is stored, and back", 1, 1)
	for _, step := range []struct {
		name string
		do   func() (*unstructured.Unstructured, error)
		want string
	}{
		{"update", func() (*unstructured.Unstructured, error) {
			created.Object["spec"] = map[string]any{"host": "h", "port": "2"}
			return e.v2.Update(ctx, created, metav1.UpdateOptions{})
		}, "{hostPort:h:2}"},
		{"merge patch", func() (*unstructured.Unstructured, error) {
			return e.v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"port":"3"}}`), metav1.PatchOptions{})
		}, "{hostPort:h:3}"},
		{"JSON patch", func() (*unstructured.Unstructured, error) {
			return e.v2.Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/host","value":"i"}]`), metav1.PatchOptions{})
		}, "{hostPort:i:3}"},
		{"apply", func() (*unstructured.Unstructured, error) {
			return e.v2.Apply(ctx, "a", e.address("v2", "a", "i", "4"), metav1.ApplyOptions{FieldManager: "m", Force: true})
		}, "{hostPort:i:4}"},
		{"dry run", func() (*unstructured.Unstructured, error) {
			return e.v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"port":"9"}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		}, "{hostPort:i:4}"},
	} {
		if _, err := e.v2.Get(ctx, "a", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		e.hook.asked()
		written, err := step.do()
		if err != nil || written.GetAPIVersion() != e.resource.GroupVersion().String() {
			t.Fatalf("%s in v2: %v, %v; want an object of v2", step.name, written, err)
		}
		if cached(t) {
			checkReviews(t, e, step.name+": to what is stored, and back", 1, 1)
		}
		stored, err := e.v1.Get(ctx, "a", metav1.GetOptions{})
		if err != nil || specOf(stored) != step.want {
			t.Errorf("%s: stored %v, %v; want %s", step.name, stored, err, step.want)
		}
	}
	managers := ""
	got, err := e.v2.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range got.GetManagedFields() {
		managers += string(entry.Operation) + strings.TrimPrefix(entry.APIVersion, e.resource.Group) + " "
	}
	if managers != "Apply/v2 Update/v2 " {
		t.Errorf("managed fields of %s", managers)
	}
	if err := e.v2.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.create(t, "b", "c")
	if err := e.v2.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := e.v1.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

func convertedSubresources(t *testing.T, _ *clients, e *converted) {
	ctx := t.Context()
	e.create(t, "a")
	status := []byte(`{"status":{"phase":"Running","replicas":3}}`)
	if _, err := e.v2.Patch(ctx, "a", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := e.v2.Get(ctx, "a", metav1.GetOptions{}, "scale")
	if err != nil || fmt.Sprint(scale.Object["spec"], scale.Object["status"]) != "map[replicas:5] map[replicas:3]" {
		t.Fatalf("scale in v2: %v, %v; want 5 replicas in spec and 3 in status", scale, err)
	}
	scale.Object["spec"] = map[string]any{"replicas": int64(7)}
	if _, err := e.v2.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	got, err := e.v1.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || specOf(got) != "{hostPort:host-a:1,replicas:7}" || fmt.Sprint(got.Object["status"]) != "map[phase:Running replicas:3]" {
		t.Errorf("stored %v, %v", got, err)
	}
}

func convertedWatches(t *testing.T, _ *clients, e *converted) {
	ctx := t.Context()
	e.create(t, "a", "b")
	var watches []watch.Interface
	for range 8 {
		w, err := e.v2.Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
		expectEvent(t, w, watch.Added, "{host:host-a,port:1}")
		expectEvent(t, w, watch.Added, "{host:host-b,port:1}")
	}
	if cached(t) {
		checkReviews(t, e, "eight watches begin", 2)
	}
	e.hook.asked()
	patch := []byte(`{"spec":{"hostPort":"new:2"}}`)
	if _, err := e.v1.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		expectEvent(t, w, watch.Modified, "{host:new,port:2}")
	}
	if cached(t) {
		checkReviews(t, e, "an event for eight watches", 1)
	}
	if err := e.v1.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		expectEvent(t, w, watch.Deleted, "{host:new,port:2}")
	}
	if cached(t) {
		checkReviews(t, e, "a deletion of what was converted")
	}
}

func failingWatches(t *testing.T, _ *clients, e *converted) {
	w, err := e.v2.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	e.hook.answer(func(w http.ResponseWriter, _ conversionReview) bool {
		http.Error(w, "boom", http.StatusInternalServerError)
		return true
	})
	e.create(t, "a")
	event := <-w.ResultChan()
	status, _ := event.Object.(*metav1.Status)
	want := fmt.Sprintf(`conversion webhook for %s/v1, Kind=Address failed: an error on the server ("boom") has prevented the request from succeeding`, e.resource.Group)
	if event.Type != watch.Error || status == nil || status.Code != 500 || status.Reason != metav1.StatusReasonInternalError || status.Message != want {
		t.Errorf("%s %v, want an error", event.Type, event.Object)
	}
	if event, open := <-w.ResultChan(); open {
		t.Errorf("after the error: %v", event)
	}
	e.hook.answer(nil)
	if again, err := e.v2.Watch(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	} else {
		defer again.Stop()
		expectEvent(t, again, watch.Added, "{host:host-a,port:1}")
	}
}

// migratedStorage checks that writing an object without changes stores it in the storage version, and that the
// old version can be removed afterwards.
func migratedStorage(t *testing.T, _ *clients, e *converted) {
	ctx := t.Context()
	e.create(t, "a", "b")
	e.redefine(t, func(spec map[string]any) {
		versions := spec["versions"].([]any)
		versions[0].(map[string]any)["storage"], versions[1].(map[string]any)["storage"] = false, true
	})
	definition, err := e.definitions.Get(ctx, e.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stored, _, _ := unstructured.NestedStringSlice(definition.Object, "status", "storedVersions"); !slices.Equal(stored, []string{"v1", "v2"}) {
		t.Errorf("stored versions %v", stored)
	}
	list, err := e.v1.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		written, err := e.v1.Update(ctx, &item, metav1.UpdateOptions{})
		if err != nil || written.GetResourceVersion() == item.GetResourceVersion() || written.GetGeneration() != item.GetGeneration() {
			t.Errorf("%v, %v: not written, or changed", written, err)
		}
		again, err := e.v1.Update(ctx, written, metav1.UpdateOptions{})
		if err != nil || again.GetResourceVersion() != written.GetResourceVersion() {
			t.Errorf("%v, %v: written twice", again, err)
		}
	}
	if err := unstructured.SetNestedStringSlice(definition.Object, []string{"v2"}, "status", "storedVersions"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.definitions.UpdateStatus(ctx, definition, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.redefine(t, func(spec map[string]any) {
		spec["versions"] = spec["versions"].([]any)[1:]
		spec["conversion"] = map[string]any{"strategy": "None"}
	})
	e.hook.asked()
	got, err := e.v2.Get(ctx, "b", metav1.GetOptions{})
	if err != nil || specOf(got) != "{host:host-b,port:1}" {
		t.Errorf("get b without the webhook: %v, %v", got, err)
	}
	checkReviews(t, e, "what was migrated")
}

// redefinedWebhook checks that the next request uses the updated definition.
func redefinedWebhook(t *testing.T, _ *clients, e *converted) {
	ctx := t.Context()
	e.create(t, "a")
	if _, err := e.v2.Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	checkReviews(t, e, "the first webhook", 1)
	other := newConverter(t)
	e.redefine(t, func(spec map[string]any) { spec["conversion"] = e.conversion(other) })
	if _, err := e.v2.Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if first, second := e.hook.asked(), other.asked(); len(first) != 0 || len(second) != 1 {
		t.Errorf("reviews of %v and %v objects, want the second webhook asked", first, second)
	}
	e.redefine(t, func(spec map[string]any) { spec["conversion"] = map[string]any{"strategy": "None"} })
	got, err := e.v2.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || specOf(got) != "{}" {
		t.Errorf("%v, %v: want what v2 knows of what is stored", got, err)
	}
	if asked := other.asked(); len(asked) != 0 {
		t.Errorf("without a webhook: reviews of %v objects", asked)
	}
}

// failingWebhook checks that a request fails completely if a conversion fails, and that other requests succeed.
func failingWebhook(t *testing.T, c *clients, e *converted) {
	ctx := t.Context()
	e.create(t, "a", "b")
	e.hook.answer(closing)
	for name, do := range map[string]func() error{
		"get":  func() error { _, err := e.v2.Get(ctx, "a", metav1.GetOptions{}); return err },
		"list": func() error { _, err := e.v2.List(ctx, metav1.ListOptions{}); return err },
		"create": func() error {
			_, err := e.v2.Create(ctx, e.address("v2", "new", "h", "1"), metav1.CreateOptions{})
			return err
		},
		"patch": func() error {
			_, err := e.v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"port":"9"}}`), metav1.PatchOptions{})
			return err
		},
		"delete": func() error { return e.v2.Delete(ctx, "a", metav1.DeleteOptions{}) },
		"delete all": func() error {
			return e.v2.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
	} {
		err := do()
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != 500 || !strings.HasPrefix(err.Error(), "conversion webhook for "+e.resource.Group) || !strings.HasSuffix(err.Error(), "EOF") {
			t.Errorf("%s while the webhook fails: %v, want code 500 with the webhook's error", name, err)
		}
	}
	c.create(t, "others", "go", "on")
	list, err := e.v1.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 || specOf(&list.Items[0]) != "{hostPort:host-a:1}" {
		t.Errorf("in the stored version: %v, %v", list, err)
	}
	if err := e.v1.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	// If the response cannot be converted to the requested version, the object is not written.
	e.hook.answer(func(w http.ResponseWriter, review conversionReview) bool {
		return strings.HasSuffix(review.DesiredAPIVersion, "/v2") && closing(w, review)
	})
	if _, err := e.v2.Create(ctx, e.address("v2", "new", "h", "1"), metav1.CreateOptions{}); err == nil {
		t.Error("the created object cannot be read")
	}
	if _, err := e.v1.Get(ctx, "new", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the rejected object: %v", err)
	}
	e.hook.answer(nil)
	if _, err := e.v2.Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Errorf("when the webhook is back: %v", err)
	}
	e.hook.answer(closing)
	if err := e.definitions.Delete(ctx, e.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := e.definitions.Get(ctx, e.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the definition is still there: %w", err)
	})
}

// unreachableWebhook checks that a list fails with a status that makes clients retry, and that a get of one
// object fails with another status. In kube-apiserver, the list fails because the watch cache cannot be filled.
func unreachableWebhook(t *testing.T, c *clients, e *converted) {
	ctx := t.Context()
	e.create(t, "a")
	e.redefine(t, func(spec map[string]any) {
		config := e.conversion(e.hook)
		client := config["webhook"].(map[string]any)["clientConfig"].(map[string]any)
		client["url"] = "https://127.0.0.1:1" // nothing listens there
		spec["conversion"] = config
	})
	get := func(name ...string) error {
		path := append([]string{"/apis", e.resource.Group, e.resource.Version, "namespaces", e.namespace, e.resource.Resource}, name...)
		return c.kube.CoreV1().RESTClient().Get().AbsPath(path...).MaxRetries(0).Do(ctx).Error()
	}
	eventually(t, func() error {
		err := get()
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 1 {
			return fmt.Errorf("list: %w", err)
		}
		return nil
	})
	var status apierrors.APIStatus
	if err := get("a"); !errors.As(err, &status) || status.Status().Code != 500 {
		t.Errorf("get: %v", err)
	}
}

// longLists checks that a long list is converted in several requests, and that the whole list fails if one of
// them fails.
func longLists(t *testing.T, _ *clients, e *converted) {
	const objects = 6
	host := strings.Repeat("x", 900<<10)
	for i := range objects {
		if _, err := e.v1.Create(t.Context(), e.address("v1", fmt.Sprint("long-", i), host, "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	reviews := 0
	e.hook.answer(func(w http.ResponseWriter, review conversionReview) bool {
		reviews++
		return reviews > 1 && closing(w, review)
	})
	_, err := e.v2.List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.HasPrefix(err.Error(), "conversion webhook for ") || reviews < 2 {
		t.Errorf("%d reviews, %v", reviews, err)
	}
	e.hook.answer(nil)
	e.hook.asked()
	list, err := e.v2.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != objects || specOf(&list.Items[objects-1]) != "{host:"+host+",port:1}" {
		t.Errorf("list after the webhook recovered: %v, want %d converted objects", err, objects)
	}
	if cached(t) {
		checkReviews(t, e, "the rest of the list", 2)
	} else {
		checkReviews(t, e, "the list", 4, 2)
	}
}

// slowWebhook checks that clients can cancel requests that are waiting for a conversion, and that these
// requests do not block other requests.
func slowWebhook(t *testing.T, c *clients, e *converted) {
	e.create(t, "a")
	asked, release := make(chan struct{}, 100), make(chan struct{})
	e.hook.answer(func(w http.ResponseWriter, review conversionReview) bool {
		asked <- struct{}{}
		<-release
		return closing(w, review)
	})
	impatient, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error)
	go func() {
		_, err := e.v2.Get(impatient, "a", metav1.GetOptions{})
		gone <- err
	}()
	<-asked
	if _, err := e.v1.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"hostPort":"b:2"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a write meanwhile: %v", err)
	}
	c.create(t, "others", "go", "on")
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who went away: %v", err)
	}
	e.hook.answer(nil)
	close(release)
	got, err := e.v2.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || specOf(got) != "{host:b,port:2}" {
		t.Errorf("get after the webhook recovered: %v, %v; want the patched object", got, err)
	}
}
