package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

var watchingObjects = []clientBehavior{
	{"report all changes in order", watchOrder},
	{"start with the existing objects", watchInitial},
	{"follow a selector", watchSelector},
	{"end with their timeout", watchTimeout},
	{"send bookmarks", watchBookmarks},
	{"send initial events and a bookmark", watchList},
	{"reject an invalid revision", watchInvalid},
	{"feed shared informers", watchInformers},
	{"feed informers of any resource", watchDynamicInformer},
	{"feed informers of metadata", watchMetadataInformer},
	{"work with the until helper of client-go", watchUntil},
	{"reach many watchers", watchMany},
	{"report a deleted object with its last revision", watchDeleted},
}

// nextEvent returns the next event of a watch, but skips bookmarks.
func nextEvent(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			if e.Type != watch.Bookmark {
				return e
			}
		case <-timeout:
			t.Fatal("no event was received")
		}
	}
}

// wantEvents reads one event for each element of want, and compares it in the form "TYPE name".
func wantEvents(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, one := range want {
		e := nextEvent(t, w)
		object, err := meta.Accessor(e.Object)
		if err != nil {
			t.Fatalf("event %v: %v", e, err)
		}
		if got := string(e.Type) + " " + object.GetName(); got != one {
			t.Errorf("got event %s, want %s", got, one)
		}
	}
}

// watchMaps opens a watch of ConfigMaps, which is stopped when the test ends.
func (c *clients) watchMaps(t *testing.T, options metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := c.maps.Watch(t.Context(), options)
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(w.Stop)
	return w
}

// now returns the current resourceVersion.
func (c *clients) now(t *testing.T) string {
	t.Helper()
	return must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{Limit: 1})).ResourceVersion
}

// retryWatcher watches ConfigMaps from the current revision until the test ends. It reconnects when a
// connection breaks.
func (c *clients) retryWatcher(t *testing.T) *watchtools.RetryWatcher {
	t.Helper()
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), c.now(t), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.maps.Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func watchOrder(t *testing.T, c *clients) {
	w := c.watchMaps(t, metav1.ListOptions{ResourceVersion: c.now(t)})
	var want []string
	for i := range 50 {
		name := fmt.Sprintf("m%d", i)
		c.create(t, name)
		must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{}))
		if err := c.maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, "ADDED "+name, "MODIFIED "+name, "DELETED "+name)
	}
	wantEvents(t, w, want...)
}

func watchInitial(t *testing.T, c *clients) {
	c.create(t, "a")
	c.create(t, "b")
	for _, from := range []string{"", "0"} {
		w := c.watchMaps(t, metav1.ListOptions{ResourceVersion: from, LabelSelector: "app=test"})
		wantEvents(t, w, "ADDED a", "ADDED b")
	}
}

func watchSelector(t *testing.T, c *clients) {
	w := c.watchMaps(t, metav1.ListOptions{LabelSelector: "in=yes", ResourceVersion: c.now(t)})
	label := func(value string) {
		must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"in":"`+value+`"}}}`), metav1.PatchOptions{}))
	}
	c.create(t, "a")
	label("yes")
	must[*corev1.ConfigMap](t)(c.maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"x":"1"}}`), metav1.PatchOptions{}))
	label("no")
	label("yes")
	wantEvents(t, w, "ADDED a", "MODIFIED a", "DELETED a", "ADDED a")
	byName := c.watchMaps(t, metav1.ListOptions{FieldSelector: "metadata.name=b", ResourceVersion: c.now(t)})
	c.create(t, "b")
	wantEvents(t, byName, "ADDED b")
}

func watchTimeout(t *testing.T, c *clients) {
	one := int64(1)
	w := c.watchMaps(t, metav1.ListOptions{TimeoutSeconds: &one, ResourceVersion: c.now(t)})
	select {
	case e, open := <-w.ResultChan():
		if open {
			t.Errorf("got event %v", e)
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch goes on")
	}
}

func watchBookmarks(t *testing.T, c *clients) {
	seconds := int64(4) // the bookmark is sent two seconds before the timeout
	from := c.now(t)
	w := c.watchMaps(t, metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: &seconds, ResourceVersion: from})
	c.create(t, "a")
	last := ""
	for e := range w.ResultChan() {
		if e.Type == watch.Bookmark {
			last = e.Object.(*corev1.ConfigMap).ResourceVersion
		}
	}
	if last == "" || revision(t, last) <= revision(t, from) {
		t.Errorf("a watch from %s ended with a bookmark of %q", from, last)
	}
}

func watchList(t *testing.T, c *clients) {
	createMany(t, c, 5)
	yes := true
	w := c.watchMaps(t, metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, LabelSelector: "app=test",
	})
	var names []string
	for e := range w.ResultChan() {
		object := must[metav1.Object](t)(meta.Accessor(e.Object))
		if e.Type == watch.Bookmark {
			if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("bookmark with annotations %v", object.GetAnnotations())
			}
			break
		}
		names = append(names, string(e.Type)+" "+object.GetName())
	}
	if want := []string{"ADDED m000", "ADDED m001", "ADDED m002", "ADDED m003", "ADDED m004"}; !slices.Equal(names, want) {
		t.Errorf("initial events %v, want %v", names, want)
	}
	c.create(t, "later")
	wantEvents(t, w, "ADDED later")
}

func watchInvalid(t *testing.T, c *clients) {
	if _, err := c.maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "abc"}); err == nil {
		t.Error("a watch from revision abc began")
	}
	_, err := c.maps.Watch(t.Context(), metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, ResourceVersion: "1"})
	wantError(t, err, apierrors.IsInvalid, "Invalid")
}

// synced waits until the informers have received the initial objects.
func synced(t *testing.T, has ...cache.InformerSynced) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), has...) {
		t.Fatal("the informers have not synced after a minute")
	}
}

func watchInformers(t *testing.T, c *clients) {
	c.create(t, "before")
	factory := informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithNamespace(c.namespace))
	maps, deployments := factory.Core().V1().ConfigMaps(), factory.Apps().V1().Deployments()
	has := []cache.InformerSynced{maps.Informer().HasSynced, deployments.Informer().HasSynced}
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	synced(t, has...)
	if _, err := maps.Lister().ConfigMaps(c.namespace).Get("before"); err != nil {
		t.Error(err)
	}
	c.create(t, "after")
	if _, err := c.kube.AppsV1().Deployments(c.namespace).Create(t.Context(), newDeployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := maps.Lister().ConfigMaps(c.namespace).Get("after")
		if err == nil {
			_, err = deployments.Lister().Deployments(c.namespace).Get("web")
		}
		return err
	})
	if err := c.maps.Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, err := maps.Lister().ConfigMaps(c.namespace).Get("before"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("a deleted object is still in the informer (%v)", err)
		}
		return nil
	})
}

func watchDynamicInformer(t *testing.T, c *clients) {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, c.namespace, nil)
	informer := factory.ForResource(deploymentsResource)
	has := informer.Informer().HasSynced
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	synced(t, has)
	if _, err := c.kube.AppsV1().Deployments(c.namespace).Create(t.Context(), newDeployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := informer.Lister().ByNamespace(c.namespace).Get("web")
		return err
	})
}

func watchMetadataInformer(t *testing.T, c *clients) {
	factory := metadatainformer.NewFilteredSharedInformerFactory(c.metadata, 0, c.namespace, nil)
	informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	has := informer.Informer().HasSynced
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	synced(t, has)
	createMany(t, c, 3)
	eventually(t, func() error {
		objects, err := informer.Lister().ByNamespace(c.namespace).List(labels.SelectorFromSet(labels.Set{"app": "test"}))
		if err == nil && len(objects) != 3 {
			err = fmt.Errorf("%d of 3 objects", len(objects))
		}
		return err
	})
}

func watchUntil(t *testing.T, c *clients) {
	c.create(t, "a", "ready", "no")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		c.maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"data":{"ready":"yes"}}`), metav1.PatchOptions{})
	}()
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return c.maps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.maps.Watch(ctx, options)
		},
	}
	_, err := watchtools.UntilWithSync(ctx, listWatch, &corev1.ConfigMap{}, nil, func(e watch.Event) (bool, error) {
		m, ok := e.Object.(*corev1.ConfigMap)
		return ok && m.Data["ready"] == "yes", nil
	})
	if err != nil {
		t.Error(err)
	}
}

func watchMany(t *testing.T, c *clients) {
	from := c.now(t)
	var watchers []watch.Interface
	for range 40 {
		watchers = append(watchers, c.watchMaps(t, metav1.ListOptions{ResourceVersion: from}))
	}
	createMany(t, c, 10)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("ADDED m%03d", i))
	}
	for _, w := range watchers {
		wantEvents(t, w, want...)
	}
}

func watchDeleted(t *testing.T, c *clients) {
	m := c.create(t, "gone", "big", strings.Repeat("x", 1000))
	w := c.watchMaps(t, metav1.ListOptions{ResourceVersion: m.ResourceVersion})
	if err := c.maps.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted := nextEvent(t, w).Object.(*corev1.ConfigMap)
	if len(deleted.Data["big"]) != 1000 || revision(t, deleted.ResourceVersion) <= revision(t, m.ResourceVersion) {
		t.Errorf("the event shows %d bytes of revision %s; the object was of %s", len(deleted.Data["big"]), deleted.ResourceVersion, m.ResourceVersion)
	}
}
