package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	systemLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	// identityOfOne is the identity of the host "one", as kube-apiserver v1.37 computes it.
	identityOfOne  = "apiserver-lonn3mgjh4otei2c3b7rmvvvfq"
	identityLeases = systemLeases + "?labelSelector=apiserver.kubernetes.io/identity%3Dkube-apiserver"
)

// identities returns the identity leases of all servers, by host name.
func (r *running) identities(t testing.TB) map[string]coordinationv1.Lease {
	t.Helper()
	var list coordinationv1.LeaseList
	r.read(t, identityLeases, &list)
	found := map[string]coordinationv1.Lease{}
	for _, lease := range list.Items {
		found[lease.Labels["kubernetes.io/hostname"]] = lease
	}
	return found
}

// awaitIdentities waits until exactly the given hosts have identity leases, and returns the leases by host
// name.
func (r *running) awaitIdentities(t testing.TB, hosts ...string) map[string]coordinationv1.Lease {
	t.Helper()
	var found map[string]coordinationv1.Lease
	testserver.Eventually(t, time.Minute, func() error {
		found = r.identities(t)
		for _, host := range hosts {
			if _, ok := found[host]; !ok {
				return fmt.Errorf("%s has no identity lease", host)
			}
		}
		if len(found) != len(hosts) {
			return fmt.Errorf("found %d identity leases, want %q", len(found), hosts)
		}
		return nil
	})
	return found
}

// TestIdentityLeases checks that each running server has an identity lease and renews it, and that expired
// leases are deleted.
func TestIdentityLeases(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	at := func(host string) Config {
		config := etcdConfig(c)
		config.Listen.Hostname = host
		return config
	}
	one := start(t, at("one"))
	first := one.awaitIdentities(t, "one")["one"]
	if first.Name != identityOfOne {
		t.Errorf("the name of the lease is %s, want %s", first.Name, identityOfOne)
	}
	if spec := first.Spec; !strings.HasPrefix(*spec.HolderIdentity, first.Name+"_") || *spec.LeaseDurationSeconds != 3600 || time.Until(spec.RenewTime.Time) > 0 {
		t.Errorf("the lease is %+v", spec)
	}
	for name, body := range map[string]string{
		"apiserver-gone":  `{"labels":{"apiserver.kubernetes.io/identity":"kube-apiserver"}},"spec":{"holderIdentity":"x","leaseDurationSeconds":1,"renewTime":"2020-01-01T00:00:00.000000Z"}`,
		"apiserver-empty": `{"labels":{"apiserver.kubernetes.io/identity":"kube-apiserver"}},"spec":{}`,
		"other":           `{},"spec":{"leaseDurationSeconds":1,"renewTime":"2020-01-01T00:00:00.000000Z"}`,
	} {
		object := fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,`, name) + strings.TrimPrefix(body, "{") + "}"
		object = strings.Replace(object, `,}`, `}`, 1)
		if code, answer := one.do(t, "POST", systemLeases, object); code != 201 {
			t.Fatalf("create %s: %d %s", name, code, answer)
		}
	}
	two := start(t, at("two"))
	two.awaitIdentities(t, "one", "two")
	if code, _ := fetch(t, two.admin, two.URL+systemLeases+"/other"); code != 200 {
		t.Errorf("get a lease that is not an identity lease: %d", code)
	}
	testserver.Eventually(t, time.Minute, func() error {
		if renewed := two.identities(t)["one"]; !renewed.Spec.RenewTime.After(first.Spec.RenewTime.Time) || renewed.UID != first.UID {
			return fmt.Errorf("the lease was not renewed: %+v", renewed.Spec)
		}
		return nil
	})
	one.end(t)
	two.awaitIdentities(t, "two")
	again := start(t, at("one"))
	if lease := again.awaitIdentities(t, "one", "two")["one"]; lease.Name != first.Name || *lease.Spec.HolderIdentity == *first.Spec.HolderIdentity {
		t.Errorf("after a restart, the lease is %s, held by %s", lease.Name, *lease.Spec.HolderIdentity)
	}
}

// TestIdentityAlone checks that a server that does not share its store also has an identity lease, unless the
// feature is disabled.
func TestIdentityAlone(t *testing.T) {
	t.Parallel()
	start(t, Config{Listen: ListenConfig{Hostname: "one"}}).awaitIdentities(t, "one")
	off := Config{Listen: ListenConfig{Hostname: "two"}}
	off.ControlPlane.Features.Gates = feature.Set{feature.APIServerIdentity: false, "UnknownVersionInteroperabilityProxy": false}
	s := start(t, off)
	if found := s.identities(t); len(found) != 0 {
		t.Errorf("with the feature disabled, there are %d identity leases", len(found))
	}
	if _, body := fetch(t, s.admin, s.URL+"/readyz?verbose"); strings.Contains(body, "identity-lease") {
		t.Errorf("readyz with the feature disabled: %s", body)
	}
}
