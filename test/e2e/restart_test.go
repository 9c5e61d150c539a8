package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"mainstay.dev/mainstay/test/testserver"
)

// TestWatchesResumeAfterRestart restarts the server and resumes a watch from its last revision. The watch must
// receive each change before and after the restart once, in order.
func TestWatchesResumeAfterRestart(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	c := newClients(t, srv.RESTConfig())
	retrying := c.retryWatcher(t)
	var want []string
	for round := range 3 {
		for i := range 10 {
			name := fmt.Sprintf("m%d-%d", round, i)
			c.create(t, name)
			want = append(want, "ADDED "+name)
		}
		if err := srv.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.maps.Delete(t.Context(), "m0-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, retrying, append(want, "DELETED m0-0")...)
}

// TestInformersSurviveRestart checks that an informer receives the writes just before and just after a restart.
func TestInformersSurviveRestart(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	c := newClients(t, srv.RESTConfig())
	factory := informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithNamespace(c.namespace))
	lister, has := factory.Core().V1().ConfigMaps().Lister(), factory.Core().V1().ConfigMaps().Informer().HasSynced
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	synced(t, has)
	createMany(t, c, 20)
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.create(t, "after")
	if err := c.maps.Delete(t.Context(), "m000", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		all, err := lister.ConfigMaps(c.namespace).List(labels.SelectorFromSet(labels.Set{"app": "test"}))
		if err == nil && len(all) != 20 {
			err = fmt.Errorf("the informer holds %d of 20", len(all))
		}
		if err == nil {
			_, err = lister.ConfigMaps(c.namespace).Get("after")
		}
		return err
	})
}

// TestRestartPreservesObjects checks that a restart does not change the encoding, revision or UID of objects.
func TestRestartPreservesObjects(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	c := newClients(t, srv.RESTConfig())
	createMany(t, c, 100)
	for i := range 10 {
		if err := c.maps.Delete(t.Context(), fmt.Sprintf("m%03d", i*10), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{}))
	page := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{Limit: 30, LabelSelector: "app=test"}))
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{}))
	if len(before.Items) != len(after.Items) {
		t.Fatalf("%d objects before, %d after", len(before.Items), len(after.Items))
	}
	for i := range before.Items {
		if b, a := before.Items[i], after.Items[i]; b.UID != a.UID || b.ResourceVersion != a.ResourceVersion || b.Data["i"] != a.Data["i"] {
			t.Errorf("%s became %s", b.String(), a.String())
		}
	}
	if revision(t, after.ResourceVersion) < revision(t, before.ResourceVersion) {
		t.Errorf("revision %s after %s", after.ResourceVersion, before.ResourceVersion)
	}
	// After the restart, a paged list continues at the revision of its first page.
	rest := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: "app=test", Continue: page.Continue}))
	if len(page.Items)+len(rest.Items) != 90 {
		t.Errorf("%d and %d objects on the pages, want 90", len(page.Items), len(rest.Items))
	}
}

// acknowledged records the acknowledged writes. values maps the name of each object to its last value, or to ""
// if it was deleted.
type acknowledged struct {
	mu     sync.Mutex
	values map[string]string
	unsure map[string]bool // writes without a response
}

func (a *acknowledged) note(name, value string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.values[name] = value
		delete(a.unsure, name)
	} else {
		a.unsure[name] = true
	}
}

// TestKillKeepsAcknowledgedWrites kills the server several times while clients concurrently create, change and
// delete objects. Afterwards, all acknowledged writes must be stored, and a watch must have received them.
func TestKillKeepsAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	c := newClients(t, srv.RESTConfig())
	writes := &acknowledged{values: map[string]string{}, unsure: map[string]bool{}}
	for round := range 4 {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for writer := range 16 {
			wg.Go(func() { writeUntil(ctx, c, writes, fmt.Sprintf("r%d-w%d", round, writer)) })
		}
		writtenAtLeast(t, writes, (round+1)*100)
		srv.Kill()
		stop()
		wg.Wait()
		if err := srv.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		compareWithServer(t, c, writes)
	}
}

// writeUntil creates, changes and deletes one object after another until ctx ends or a write fails.
func writeUntil(ctx context.Context, c *clients, writes *acknowledged, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d", prefix, i)
		_, err := c.maps.Create(ctx, newConfigMap(name, "v", "created"), metav1.CreateOptions{})
		writes.note(name, "created", err)
		if err != nil {
			return
		}
		if i%2 == 0 {
			_, err = c.maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"v":"changed"}}`), metav1.PatchOptions{})
			writes.note(name, "changed", err)
		} else if i%3 == 0 {
			err = c.maps.Delete(ctx, name, metav1.DeleteOptions{})
			writes.note(name, "", err)
		}
		if err != nil {
			return
		}
	}
}

// writtenAtLeast waits until the server has acknowledged writes to n objects.
func writtenAtLeast(t *testing.T, writes *acknowledged, n int) {
	t.Helper()
	eventually(t, func() error {
		writes.mu.Lock()
		defer writes.mu.Unlock()
		if len(writes.values) < n {
			return fmt.Errorf("%d of %d objects are written", len(writes.values), n)
		}
		return nil
	})
}

func compareWithServer(t *testing.T, c *clients, writes *acknowledged) {
	t.Helper()
	writes.mu.Lock()
	defer writes.mu.Unlock()
	list := must[*corev1.ConfigMapList](t)(c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: "app=test"}))
	got := map[string]string{}
	for _, m := range list.Items {
		got[m.Name] = m.Data["v"]
	}
	for name, want := range writes.values {
		if !writes.unsure[name] && got[name] != want {
			t.Errorf("%s: acknowledged %q, found %q", name, want, got[name])
		}
	}
	for name := range got {
		if _, known := writes.values[name]; !known && !writes.unsure[name] {
			t.Errorf("%s is there, but was never asked for", name)
		}
	}
	for name := range writes.unsure { // the stored state is now valid
		writes.values[name] = got[name]
	}
	clear(writes.unsure)
	_, err := c.maps.Create(t.Context(), newConfigMap(list.Items[0].Name), metav1.CreateOptions{})
	wantError(t, err, apierrors.IsAlreadyExists, "AlreadyExists")
}

// TestEventsExpire checks that events are deleted after the duration of --event-ttl.
func TestEventsExpire(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: []string{"--event-ttl=1s"}})
	c := newClients(t, srv.RESTConfig())
	events := c.kube.CoreV1().Events(c.namespace)
	w, err := events.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: c.namespace}}
	must[*corev1.Event](t)(events.Create(t.Context(), event, metav1.CreateOptions{}))
	c.create(t, "stays")
	wantEvents(t, w, "ADDED e", "DELETED e")
	_, err = events.Get(t.Context(), "e", metav1.GetOptions{})
	wantError(t, err, apierrors.IsNotFound, "NotFound")
	must[*corev1.ConfigMap](t)(c.maps.Get(t.Context(), "stays", metav1.GetOptions{}))
}

// TestStopEndsWatches checks that a server that is stopping ends open watches gracefully and does not wait for
// clients to close them.
func TestStopEndsWatches(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	c := newClients(t, srv.RESTConfig())
	w := c.watchMaps(t, metav1.ListOptions{})
	began := time.Now()
	if err := srv.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %s", time.Since(began))
	for range w.ResultChan() { // blocks until the watch ends
	}
	if err := srv.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}
