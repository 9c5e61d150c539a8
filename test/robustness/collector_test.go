package robustness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	// dependents is how many objects each owner has.
	dependents = 100
	// late is how many more each writer makes of each sort, at most.
	late = 50
)

// TestCollectorKilled: of three servers over one etcd, whichever collects is killed while
// an owner's dependents go, a namespace is emptied, and writers go on in both. Another
// one finishes both; nothing that has a living owner goes, and nothing stays in the
// namespace.
func TestCollectorKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	etcd := "--etcd-servers=" + strings.Join(etcdtest.Start(t, etcdtest.Options{}).URLs(), ",")
	var servers []*testserver.Server
	for range 3 {
		servers = append(servers, testserver.New(t, testserver.Options{Flags: []string{etcd}}))
	}
	config := servers[2].RESTConfig()
	config.QPS = -1
	client := kubernetes.NewForConfigOrDie(config)
	gone, living := createMap(t, client, "default", "gone"), createMap(t, client, "default", "living")
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "going"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range dependents {
		createMap(t, client, "default", fmt.Sprintf("only-%d", n), gone)
		createMap(t, client, "default", fmt.Sprintf("both-%d", n), gone, living)
		createMap(t, client, "going", fmt.Sprintf("in-%d", n))
	}
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() { keepCreating(ctx, client, n, gone, living) })
	}
	background := metav1.DeletePropagationBackground
	if err := client.CoreV1().ConfigMaps("default").Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	servers[0].Kill() // one of the two was not the one that collects, or neither was
	servers[1].Kill()
	testserver.Eventually(t, 2*time.Minute, func() error {
		if _, err := client.CoreV1().Namespaces().Get(t.Context(), "going", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace is still there: %w", err)
		}
		return nil
	})
	stop()
	writers.Wait()
	testserver.Eventually(t, 2*time.Minute, func() error { return onlyLiving(t, client) })
}

// createMap creates a ConfigMap, and returns what its dependents say of it.
func createMap(t *testing.T, client kubernetes.Interface, namespace, name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	created, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: created.UID}
}

// keepCreating creates objects of the owners and in the namespace for a while; those of
// the namespace are refused at last.
func keepCreating(ctx context.Context, client kubernetes.Interface, writer int, gone, living metav1.OwnerReference) {
	for n := 0; n < late && ctx.Err() == nil; n++ {
		name := fmt.Sprintf("late-%d-%d", writer, n)
		for namespace, owners := range map[string][]metav1.OwnerReference{"going": nil, "default": {gone}} {
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "only-" + name, OwnerReferences: owners}}
			_, _ = client.CoreV1().ConfigMaps(namespace).Create(ctx, obj, metav1.CreateOptions{})
		}
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "both-" + name, OwnerReferences: []metav1.OwnerReference{gone, living}}}
		_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, obj, metav1.CreateOptions{})
	}
}

// onlyLiving returns which objects are there that have no living owner, or are not
// that have one.
func onlyLiving(t *testing.T, client kubernetes.Interface) error {
	all, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	left, both := 0, map[string]bool{}
	for i := range all.Items {
		switch name := all.Items[i].Name; {
		case strings.HasPrefix(name, "only-"):
			left++
		case strings.HasPrefix(name, "both-"):
			both[name] = true
		}
	}
	for n := range dependents {
		if name := fmt.Sprintf("both-%d", n); !both[name] {
			t.Fatalf("%s was collected, though one of its owners lives", name)
		}
	}
	if left > 0 {
		return fmt.Errorf("%d objects without an owner are left", left)
	}
	return nil
}
