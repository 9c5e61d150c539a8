package robustness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	planeWriters = 4
	planeKills   = 8
)

// sourceName is the name of the control plane from which all forks are created, and of an object in this
// control plane.
const sourceName = "source"

// isFork reports whether the control plane with the given name is a fork. Every second writer creates forks.
func isFork(name string) bool {
	return strings.HasPrefix(name, "w1-") || strings.HasPrefix(name, "w3-")
}

// TestKilledControlPlanes kills the server while clients create, use and delete control planes and forks.
// Afterwards, all declared control planes must work and have their acknowledged objects. The store must have no
// keys or pins of other control planes.
func TestKilledControlPlanes(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "control planes have no control planes")
	p := &planes{server: testserver.New(t, testserver.Options{}), dir: t.TempDir(), written: map[string]bool{}}
	var err error
	if p.objects, err = dynamic.NewForConfig(p.server.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := p.createIn(ctx, sourceName); err != nil {
		t.Fatal(err)
	}
	p.written[sourceName] = true
	var over atomic.Bool
	var writing errgroup.Group
	for i := range planeWriters {
		writing.Go(func() error { return p.write(ctx, i, over.Load) })
	}
	for kill := range planeKills {
		time.Sleep(time.Duration(100+50*kill) * time.Millisecond) // the time until the kill varies
		p.server.Kill()
		if err := p.server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	if err := writing.Wait(); err != nil {
		t.Fatal(err)
	}
	p.verify(ctx, t)
}

// planes is the state of the test.
type planes struct {
	server  *testserver.Server
	objects dynamic.Interface
	dir     string // for kubeconfigs

	mu sync.Mutex
	// written contains the names of the control planes that have an acknowledged object and were not deleted.
	written map[string]bool
}

func controlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "mainstay.dev", Version: "v1", Resource: "controlplanes"}
}

// retry calls f until it succeeds, because the server can be killed at any time. It gives up when ctx ends.
func retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// write creates control planes, each with an object, until over returns true. It deletes every second one.
func (p *planes) write(ctx context.Context, writer int, over func() bool) error {
	for n := 0; !over(); n++ {
		name := fmt.Sprintf("w%d-%d", writer, n)
		if err := retry(ctx, func() error { return p.createIn(ctx, name) }); err != nil {
			return fmt.Errorf("create an object in %s: %w", name, err)
		}
		if n%2 == 0 {
			p.mu.Lock()
			p.written[name] = true
			p.mu.Unlock()
			continue
		}
		err := retry(ctx, func() error {
			err := p.objects.Resource(controlPlanes()).Delete(ctx, name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
	}
	return nil
}

// client returns a client for a control plane. It creates the control plane if necessary.
func (p *planes) client(ctx context.Context, name string) (kubernetes.Interface, error) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	create := p.server.ControlPlane
	if isFork(name) {
		create = func(ctx context.Context, name, kubeconfig string) (*rest.Config, error) {
			return p.server.Fork(ctx, sourceName, name, kubeconfig)
		}
	}
	config, err := create(limited, name, filepath.Join(p.dir, name))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// createIn creates an object in a control plane.
func (p *planes) createIn(ctx context.Context, name string) error {
	client, err := p.client(ctx, name)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier attempt created it, but its response was lost
	}
	return err
}

// verify checks that the control planes and the keys of the store match the acknowledged writes.
func (p *planes) verify(ctx context.Context, t *testing.T) {
	t.Helper()
	uids := map[string]bool{}
	testserver.Eventually(t, time.Minute, func() error {
		list, err := p.objects.Resource(controlPlanes()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		clear(uids)
		for _, object := range list.Items {
			if object.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s is terminating", object.GetName())
			}
			uids[string(object.GetUID())] = true
		}
		return nil
	})
	if len(uids) != len(p.written) {
		t.Errorf("%d control planes exist, want %d", len(uids), len(p.written))
	}
	for name := range p.written {
		client, err := p.client(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		objects := []string{name, "kube-root-ca.crt"} // written by the test and by a controller
		if isFork(name) {
			objects = append(objects, sourceName)
		}
		for _, object := range objects {
			testserver.Eventually(t, time.Minute, func() error {
				_, err := client.CoreV1().ConfigMaps("default").Get(ctx, object, metav1.GetOptions{})
				return err
			})
		}
	}
	if err := p.server.Stop(); err != nil {
		t.Fatal(err)
	}
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(p.server.Dir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const prefix = "/registry.controlplanes/"
	keys, err := store.Range(ctx, kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix)})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range keys.Entries {
		if uid, _, _ := strings.Cut(strings.TrimPrefix(entry.Key, prefix), "/"); !uids[uid] && uid != "templates" {
			t.Errorf("the key %s belongs to no control plane", entry.Key)
		}
	}
	pins, err := store.Pins(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range pins {
		if !uids[pin.Owner] {
			t.Errorf("the pin %+v belongs to no control plane", pin)
		}
	}
	t.Logf("%d kills; %d pins; %d control planes exist, with %d keys", planeKills, len(pins), len(uids), len(keys.Entries))
}
