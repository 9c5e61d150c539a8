package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// rollingWriters is the number of clients that write during the restarts. rollingRounds is the average number
// of objects that each client must write before the next restart.
const (
	rollingWriters = 6
	rollingRounds  = 20
)

// TestRollingRestart restarts three servers over one etcd, one after another. Clients connect through a load
// balancer. No request of client-go may fail, a RetryWatcher and an informer must receive every change, and a
// leader must keep its lease.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "the load balancer has no path")
	servers := startSharing(t, 3)
	config := servers[0].RESTConfig()
	config.Host = "https://" + balance(t, servers)
	c := newClients(t, config)
	received := followAll(t, c)
	informer := startInformer(t, c)
	leader := newPatientCandidate(t, c, "leader", true, time.Minute)
	eventually(t, leader.leads)

	var work rollingWork
	writing, ctx := errgroup.WithContext(t.Context())
	for id := range rollingWriters {
		writing.Go(func() error { return work.write(ctx, c, id) })
	}
	for _, server := range servers {
		work.awaitProgress(t, ctx)
		if err := server.Restart(t.Context()); err != nil {
			t.Error(err)
		}
	}
	work.awaitProgress(t, ctx)
	work.over.Store(true)
	if err := writing.Wait(); err != nil {
		t.Fatal(err)
	}
	last := c.create(t, "last")
	work.wrote(last, "ADDED")
	t.Logf("%d writes", len(work.written))
	compareEvents(t, received(last.ResourceVersion), work.written)
	eventually(t, func() error { return sameAsStored(t, c, informer) })
	if err := leader.leads(); err != nil {
		t.Error(err)
	}
}

// startSharing starts n servers that use the same keys and the same etcd.
func startSharing(t *testing.T, n int) []*testserver.Server {
	t.Helper()
	urls := "--etcd-servers=" + strings.Join(etcdtest.Start(t, etcdtest.Options{}).URLs(), ",")
	var servers []*testserver.Server
	for range n {
		options := testserver.Options{Dir: filepath.Join(t.TempDir(), "data"), Flags: []string{urls}}
		if len(servers) > 0 {
			if err := copyKeys(filepath.Join(servers[0].Dir(), "pki"), filepath.Join(options.Dir, "pki")); err != nil {
				t.Fatal(err)
			}
		}
		servers = append(servers, testserver.New(t, options))
	}
	return servers
}

func copyKeys(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, file os.DirEntry, err error) error {
		if err != nil || file.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
}

// balance starts a load balancer and returns its address. It distributes connections in turn over the servers
// that accept them.
func balance(t *testing.T, servers []*testserver.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); _ = l.Close(); passing.Wait() })
	passing.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			passing.Go(func() { passOn(ctx, conn, servers, n) })
		}
	})
	return l.Addr().String()
}

func passOn(ctx context.Context, conn net.Conn, servers []*testserver.Server, first int) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	for i := range servers {
		to, err := net.Dial("tcp", strings.TrimPrefix(servers[(first+i)%len(servers)].URL(), "https://"))
		if err != nil {
			continue
		}
		defer to.Close()
		go func() { // ends when either connection ends
			_, _ = io.Copy(to, conn)
			to.Close()
		}()
		_, _ = io.Copy(conn, to)
		return
	}
}

// rollingWork records the writes and the progress of the writers.
type rollingWork struct {
	over   atomic.Bool
	rounds atomic.Int64

	mu      sync.Mutex
	written map[string]string // verb and name of each write, by revision
}

func (w *rollingWork) wrote(m *corev1.ConfigMap, kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.written == nil {
		w.written = map[string]string{}
	}
	w.written[m.ResourceVersion] = kind + " " + m.Name
}

// write creates, reads, changes and deletes objects until all restarts are complete. It returns an error if any
// request fails.
func (w *rollingWork) write(ctx context.Context, c *clients, id int) error {
	for n := 0; !w.over.Load(); n++ {
		name := fmt.Sprintf("w%d-%d", id, n)
		created, err := c.maps.Create(ctx, newConfigMap(name, "v", "1"), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
		w.wrote(created, "ADDED")
		read, err := c.maps.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get %s: %w", name, err)
		}
		if read.ResourceVersion != created.ResourceVersion {
			return fmt.Errorf("get %s: resourceVersion %s, want %s", name, read.ResourceVersion, created.ResourceVersion)
		}
		read.Data["v"] = "2"
		updated, err := c.maps.Update(ctx, read, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("update %s: %w", name, err)
		}
		w.wrote(updated, "MODIFIED")
		patched, err := c.maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"v":"3"}}`), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("patch %s: %w", name, err)
		}
		w.wrote(patched, "MODIFIED")
		list, err := c.maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			return fmt.Errorf("list %s: %w", name, err)
		}
		if len(list.Items) != 1 || list.Items[0].ResourceVersion != patched.ResourceVersion {
			return fmt.Errorf("list %s: %d objects, want one with resourceVersion %s", name, len(list.Items), patched.ResourceVersion)
		}
		if n%2 == 0 {
			if err := c.maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				return fmt.Errorf("delete %s: %w", name, err)
			}
		}
		w.rounds.Add(1)
	}
	return nil
}

// awaitProgress waits until the writers have written more objects, as specified by rollingRounds, or until ctx
// ends because a writer has failed.
func (w *rollingWork) awaitProgress(t *testing.T, ctx context.Context) {
	t.Helper()
	want := w.rounds.Load() + rollingWriters*rollingRounds
	eventually(t, func() error {
		if w.rounds.Load() < want && ctx.Err() == nil {
			return errors.New("the writers make no progress")
		}
		return nil
	})
}

// followAll starts a watch of all ConfigMaps. The returned function waits for the event with the given
// revision, and returns all events up to and including this event.
func followAll(t *testing.T, c *clients) func(revision string) []*watch.Event {
	t.Helper()
	w := c.retryWatcher(t)
	return func(revision string) []*watch.Event {
		t.Helper()
		var all []*watch.Event
		for event := range w.ResultChan() {
			m, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				t.Fatalf("the watch received %s of %T %v", event.Type, event.Object, event.Object)
			}
			all = append(all, &event)
			if m.ResourceVersion == revision {
				return all
			}
		}
		t.Fatal("the watch has ended")
		return nil
	}
}

// compareEvents checks that a watch has received every write exactly once, in order.
func compareEvents(t *testing.T, received []*watch.Event, written map[string]string) {
	t.Helper()
	last := uint64(0)
	for _, event := range received {
		m := event.Object.(*corev1.ConfigMap)
		if at := revision(t, m.ResourceVersion); at <= last {
			t.Errorf("%s of %s at revision %d after %d", event.Type, m.Name, at, last)
		} else {
			last = at
		}
		if event.Type == watch.Deleted {
			continue // the response of a deletion does not contain its revision
		}
		if want := written[m.ResourceVersion]; want != fmt.Sprintf("%s %s", event.Type, m.Name) && strings.HasPrefix(m.Name, "w") {
			t.Errorf("the watch received %s %s at revision %s, want %q", event.Type, m.Name, m.ResourceVersion, want)
		}
		delete(written, m.ResourceVersion)
	}
	for at, what := range written {
		t.Errorf("the watch did not receive %s at revision %s", what, at)
	}
}

// startInformer starts an informer for ConfigMaps and waits until it has synced.
func startInformer(t *testing.T, c *clients) cache.SharedIndexInformer {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(c.kube, 0, informers.WithNamespace(c.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	synced(t, informer.HasSynced)
	return informer
}

// sameAsStored returns an error unless the cache of an informer contains the same objects as a list.
func sameAsStored(t *testing.T, c *clients, informer cache.SharedIndexInformer) error {
	t.Helper()
	list, err := c.maps.List(t.Context(), metav1.ListOptions{LabelSelector: labels.Everything().String()})
	if err != nil {
		return err
	}
	known := informer.GetStore()
	if n := len(known.ListKeys()); n != len(list.Items) {
		return fmt.Errorf("the informer has %d objects, want %d", n, len(list.Items))
	}
	for i := range list.Items {
		item := &list.Items[i]
		if got, found, err := known.Get(item); err != nil || !found || got.(*corev1.ConfigMap).ResourceVersion != item.ResourceVersion {
			return fmt.Errorf("the informer does not know %s at revision %s (%v)", item.Name, item.ResourceVersion, err)
		}
	}
	return nil
}
