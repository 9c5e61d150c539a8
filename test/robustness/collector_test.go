package robustness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	// dependents is the number of objects of each sort that exist when their owner is deleted.
	dependents = 100
	// late is the maximum number of objects of each sort that each writer creates after the deletion.
	late = 50
)

// TestCollectorKilled runs three servers over one etcd. It kills the server that runs the controllers while
// this server deletes the dependents of an owner and the objects of a namespace, and while clients create
// additional objects. Another server must continue the deletion: it must delete all dependents and the
// namespace, but no object that has a living owner.
func TestCollectorKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped with -short: the test waits until a lease expires")
	}
	etcd := "--etcd-servers=" + strings.Join(etcdtest.Start(t, etcdtest.Options{}).URLs(), ",")
	acting := testserver.New(t, testserver.Options{Flags: []string{etcd}})
	testserver.Eventually(t, time.Minute, func() error {
		if !strings.Contains(acting.Logs(), "acquired the lease of the controllers") {
			return errors.New("the only server does not run the controllers")
		}
		return nil
	})
	idle := testserver.New(t, testserver.Options{Flags: []string{etcd}})
	survivor := testserver.New(t, testserver.Options{Flags: []string{etcd}})
	site := newCollectorSite(t, kubernetes.NewForConfigOrDie(survivor.RESTConfig()))

	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() { site.keepCreating(ctx, n) })
	}
	site.deleteOwnerAndNamespace(t)
	acting.Kill()
	idle.Kill()
	testserver.Eventually(t, 2*time.Minute, func() error {
		if _, err := site.client.CoreV1().Namespaces().Get(t.Context(), "going", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace is still there: %w", err)
		}
		return nil
	})
	stop()
	writers.Wait()
	testserver.Eventually(t, 2*time.Minute, func() error { return site.check(t) })
}

// collectorSite contains the objects to collect: ConfigMaps with a deleted owner, some of which also have a
// living owner, and ConfigMaps in a deleted namespace.
type collectorSite struct {
	client       kubernetes.Interface
	gone, living metav1.OwnerReference
}

func newCollectorSite(t *testing.T, client kubernetes.Interface) *collectorSite {
	t.Helper()
	s := &collectorSite{client: client}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, owner := range map[string]*metav1.OwnerReference{"gone": &s.gone, "living": &s.living} {
		created, err := s.create(t.Context(), "default", name)
		if err != nil {
			t.Fatal(err)
		}
		*owner = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: created.UID}
	}
	var creating errgroup.Group
	creating.SetLimit(32) // concurrent commits share an fsync
	for n := range dependents {
		creating.Go(func() error { return s.createEach(t.Context(), fmt.Sprint(n)) })
	}
	if err := creating.Wait(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *collectorSite) create(ctx context.Context, namespace, name string, owners ...metav1.OwnerReference) (*corev1.ConfigMap, error) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	return s.client.CoreV1().ConfigMaps(namespace).Create(ctx, obj, metav1.CreateOptions{})
}

// createEach creates one object of each sort.
func (s *collectorSite) createEach(ctx context.Context, suffix string) error {
	_, inNamespace := s.create(ctx, "going", "in-"+suffix)
	_, ofGone := s.create(ctx, "default", "only-"+suffix, s.gone)
	_, ofBoth := s.create(ctx, "default", "both-"+suffix, s.gone, s.living)
	return errors.Join(inNamespace, ofGone, ofBoth)
}

// keepCreating creates additional objects. The server rejects those in the deleted namespace once the namespace
// is terminating.
func (s *collectorSite) keepCreating(ctx context.Context, writer int) {
	for n := 0; n < late && ctx.Err() == nil; n++ {
		_ = s.createEach(ctx, fmt.Sprintf("late-%d-%d", writer, n))
	}
}

func (s *collectorSite) deleteOwnerAndNamespace(t *testing.T) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	if err := s.client.CoreV1().ConfigMaps("default").Delete(t.Context(), s.gone.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	if err := s.client.CoreV1().Namespaces().Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// check returns an error while objects remain that the collector must delete. It fails the test if
// an object with a living owner is missing.
func (s *collectorSite) check(t *testing.T) error {
	t.Helper()
	all, err := s.client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	var left []string
	both := map[string]bool{}
	for _, obj := range all.Items {
		if obj.Namespace == "going" || strings.HasPrefix(obj.Name, "only-") {
			left = append(left, obj.Namespace+"/"+obj.Name)
		}
		both[obj.Name] = true
	}
	for n := range dependents {
		if name := fmt.Sprintf("both-%d", n); !both[name] {
			t.Fatalf("%s was collected, though one of its owners lives", name)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d objects are left, %s among them", len(left), left[0])
	}
	return nil
}
