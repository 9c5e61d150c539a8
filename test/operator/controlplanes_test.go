package operator

import (
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mainstay.dev/mainstay/test/testserver"
)

// TestManyControlPlanes runs one operator in each of 100 control planes of one server at the same time. The
// sites have the same names in all control planes, so an operator that receives objects of another control
// plane reports the wrong domain.
func TestManyControlPlanes(t *testing.T) {
	t.Parallel()
	testserver.RootOnly(t, "control planes have no control planes")
	count := 100
	if testing.Short() {
		count = 10
	}
	server := testserver.New(t, testserver.Options{})
	all := make([]*environment, count)
	for i := range all {
		name := fmt.Sprint("plane-", i)
		config, err := server.ControlPlane(t.Context(), name, filepath.Join(t.TempDir(), "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = newEnvironmentOf(t, config)
		all[i].run(t)
	}
	for i, w := range all {
		site := newSite("shop")
		site.Spec.Domain = fmt.Sprint("plane-", i, ".example.com")
		if err := w.client.Create(t.Context(), site); err != nil {
			t.Fatal(err)
		}
	}
	for i, w := range all {
		site := w.settled(t, "shop")
		if ready := meta.FindStatusCondition(site.Status.Conditions, "Ready"); ready == nil || len(site.Finalizers) != 1 {
			t.Errorf("the site is %+v", site)
		}
		if _, err := w.deployment(t, "shop"); err != nil {
			t.Error(err)
		}
		if got := w.dns.get(fmt.Sprint("plane-", i, ".example.com")); got != "shop" || len(w.dns.records) != 1 {
			t.Errorf("the DNS records are %v", w.dns.records)
		}
		if err := w.client.Delete(t.Context(), site); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range all {
		eventually(t, func() error { // after the finalizer is removed and the garbage collector has run
			if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "shop"}, &Site{}); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("get of the deleted site: error %v, want NotFound", err)
			}
			if _, err := w.deployment(t, "shop"); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("get of the deployment of the deleted site: error %v, want NotFound", err)
			}
			return nil
		})
	}
}
