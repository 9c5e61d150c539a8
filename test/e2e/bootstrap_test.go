package e2e

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/test/testserver"
)

// TestRestartWritesNothing checks that only the first start creates the default objects of a cluster.
func TestRestartWritesNothing(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{})
	revision := func() string {
		list, err := kubernetes.NewForConfigOrDie(srv.RESTConfig()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.ResourceVersion
	}
	for _, namespace := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		awaitNamespaceObjects(t, kubernetes.NewForConfigOrDie(srv.RESTConfig()), namespace)
	}
	eventually(t, func() error { // asynchronous writes of the first start
		leases, err := kubernetes.NewForConfigOrDie(srv.RESTConfig()).CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(leases.Items) == 0 {
			err = errors.New("the server has no identity lease")
		}
		if err == nil {
			_, err = kubernetes.NewForConfigOrDie(srv.RESTConfig()).CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		}
		return err
	})
	before := revision()
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := revision(); after != before {
		t.Errorf("the store was at revision %s and is at %s after a restart", before, after)
	}
}
