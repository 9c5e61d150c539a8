package controlplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/test/testserver"
)

const garbagePrefix = "/garbage"

// collectorTest is a control plane with a garbage collector, and the objects that the test has created.
type collectorTest struct {
	t     *testing.T
	env   *Env
	plane *ControlPlane
	rand  *rand.Rand
	made  []createdObject // all created objects, in order
}

// createdObject is an object that the test created.
type createdObject struct {
	kind    string // key in the result of kinds
	name    types.NamespacedName
	uid     types.UID
	deleted bool // deleted by the test
}

// kind is a kind of the created objects.
type kind struct {
	gvk        string
	namespaced bool
	client     func(*loopback.Access) *loopback.Client[codec.Object]
	empty      func() codec.Object
}

func kinds() map[string]kind {
	return map[string]kind{
		"ConfigMap": {"v1", true, func(a *loopback.Access) *loopback.Client[codec.Object] {
			return loopback.For[codec.Object](a, configMaps)
		},
			func() codec.Object { return &corev1.ConfigMap{} }},
		"Secret": {"v1", true, func(a *loopback.Access) *loopback.Client[codec.Object] {
			return loopback.For[codec.Object](a, corev1.SchemeGroupVersion.WithResource("secrets"))
		}, func() codec.Object { return &corev1.Secret{} }},
		"ClusterRole": {"rbac.authorization.k8s.io/v1", false, func(a *loopback.Access) *loopback.Client[codec.Object] {
			return loopback.For[codec.Object](a, rbacv1.SchemeGroupVersion.WithResource("clusterroles"))
		}, func() codec.Object { return &rbacv1.ClusterRole{} }},
	}
}

func (c *collectorTest) open() {
	c.plane = newPlane(c.t, c.env, garbagePrefix)
	if err := c.plane.Open(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *collectorTest) client(of string) *loopback.Client[codec.Object] {
	return kinds()[of].client(c.plane.opened.Load().resources.access)
}

// create creates an object with up to three owners, which may exist, be deleted or never have existed.
func (c *collectorTest) create(n int) {
	m := createdObject{kind: []string{"ConfigMap", "Secret", "ClusterRole"}[c.rand.IntN(3)], name: types.NamespacedName{Name: fmt.Sprintf("o%d", n)}}
	if kinds()[m.kind].namespaced {
		m.name.Namespace = []string{"default", "kube-public"}[c.rand.IntN(2)]
	}
	obj := kinds()[m.kind].empty()
	obj.SetName(m.name.Name)
	obj.SetNamespace(m.name.Namespace)
	obj.SetOwnerReferences(c.owners(m))
	created, err := c.client(m.kind).Create(c.t.Context(), obj)
	if err != nil {
		c.t.Fatal(err)
	}
	m.uid = created.GetUID()
	c.made = append(c.made, m)
}

func (c *collectorTest) owners(of createdObject) []metav1.OwnerReference {
	var refs []metav1.OwnerReference
	for range c.rand.IntN(4) {
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: types.UID(fmt.Sprintf("never-%d", c.rand.IntN(3)))}
		if len(c.made) > 0 && c.rand.IntN(8) > 0 {
			owner := c.made[max(0, len(c.made)-1-c.rand.IntN(12))]
			if kinds()[owner.kind].namespaced && owner.name.Namespace != of.name.Namespace {
				continue
			}
			ref = metav1.OwnerReference{APIVersion: kinds()[owner.kind].gvk, Kind: owner.kind, Name: owner.name.Name, UID: owner.uid}
		} else if of.name.Namespace == "" {
			continue
		}
		if slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }) {
			continue
		}
		ref.BlockOwnerDeletion = new(c.rand.IntN(2) == 0)
		refs = append(refs, ref)
	}
	return refs
}

func (c *collectorTest) delete() {
	m := &c.made[c.rand.IntN(len(c.made))]
	policy := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[c.rand.IntN(3)]
	m.deleted = true
	err := c.client(m.kind).Delete(c.t.Context(), m.name, metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &m.uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		c.t.Fatal(err)
	}
}

// changeOwners changes the owners of a random object, which might already be deleted.
func (c *collectorTest) changeOwners() {
	m := c.made[c.rand.IntN(len(c.made))]
	_, err := c.client(m.kind).Update(c.t.Context(), m.name, func(obj codec.Object) error {
		obj.SetOwnerReferences(c.owners(m))
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
}

// TestCollectorModel changes a random graph of owners while the collector runs and is restarted. It checks
// that no object with an existing owner is collected, and that all objects without an existing owner are
// collected in the end.
func TestCollectorModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := &collectorTest{t: t, env: newEnv(t), rand: rand.New(rand.NewPCG(seed, 1))}
			from, err := c.env.Storage.Backend.CurrentRevision(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, release, err := c.env.Storage.Backend.Hold(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			c.open()
			for n := range 400 {
				switch p := c.rand.IntN(100); {
				case p < 60 || n < 5:
					c.create(n)
				case p < 85:
					c.delete()
				case p < 98:
					c.changeOwners()
				default: // Close cancels the collector's requests in flight
					c.plane.Close()
					c.open()
				}
			}
			testserver.Eventually(t, 2*time.Minute, c.settled)
			c.justified(from + 1)
		})
	}
}

// all returns the metadata of all stored objects by UID.
func (c *collectorTest) all() map[string]changes.Meta {
	found := map[string]changes.Meta{}
	result, err := c.env.Storage.Backend.Range(context.Background(), kv.RangeRequest{Start: garbagePrefix + "/", End: kv.PrefixEnd(garbagePrefix + "/")})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range result.Entries {
		if meta, err := changes.ParseMeta(e.Value); err == nil {
			found[meta.UID] = meta
		}
	}
	return found
}

// settled returns an error while the collector has pending work.
func (c *collectorTest) settled() error {
	all := c.all()
	for _, m := range c.made {
		meta, there := all[string(m.uid)]
		switch {
		case !there:
			continue
		case m.deleted || meta.Deleting:
			return fmt.Errorf("%s %s is still there: %+v", m.kind, m.name, meta)
		case len(meta.Owners) > 0 && !slices.ContainsFunc(meta.Owners, func(o changes.Owner) bool { _, ok := all[o.UID]; return ok }):
			return fmt.Errorf("%s %s has no owner any more, and is still there: %+v", m.kind, m.name, meta)
		}
	}
	return nil
}

// justified checks all deletions by the collector. Each owner of a deleted object must have been deleted
// before, or must have waited for the deletion of its dependents.
func (c *collectorTest) justified(from kv.Revision) {
	deleted := map[string]bool{}
	for _, m := range c.made {
		deleted[string(m.uid)] = m.deleted
	}
	w, err := c.env.Storage.Backend.Watch(c.t.Context(), garbagePrefix+"/", kv.PrefixEnd(garbagePrefix+"/"), from)
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Stop()
	to, err := c.env.Storage.Backend.CurrentRevision(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.env.Storage.Backend.RequestProgress(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	living := map[string]changes.Meta{}
	doomed := map[string]changes.Meta{} // state at the start of the deletion; the test may change the owners later
	waited := map[string]bool{}         // objects that have waited for the deletion of dependents
	collected := 0
	for batch := range w.Batches() {
		for _, e := range batch.Events {
			now, err := changes.ParseMeta(e.Value)
			if err != nil {
				continue
			}
			if !e.Deleted {
				living[now.UID] = now
				if _, known := doomed[now.UID]; now.Deleting && !known {
					doomed[now.UID] = now
				}
				waited[now.UID] = waited[now.UID] || now.Deleting && slices.Contains(now.Finalizers, metav1.FinalizerDeleteDependents)
				continue
			}
			old, _ := changes.ParseMeta(e.Prev.Value)
			delete(living, old.UID)
			byTest, ours := deleted[old.UID]
			if !ours || byTest {
				continue
			}
			collected++
			if began, ok := doomed[old.UID]; ok {
				old = began
			}
			if len(old.Owners) == 0 {
				c.t.Errorf("%s was collected although it has no owners", e.Key)
			}
			for _, owner := range old.Owners {
				if o, ok := living[owner.UID]; ok && !waited[owner.UID] {
					c.t.Errorf("%s was collected although its owner %s exists: %+v", e.Key, owner.Name, o)
				}
			}
		}
		if batch.Revision >= to {
			break
		}
	}
	c.t.Logf("%d created, %d collected, %d remain", len(c.made), collected, len(living))
}

// awaitControllers waits until the controllers process events. It creates a namespace, and waits until a
// controller has created its service account.
func awaitControllers(t *testing.T, access *loopback.Access) {
	t.Helper()
	namespaces := loopback.For[*corev1.Namespace](access, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "awaited"}}); err != nil {
		t.Fatal(err)
	}
	accounts := loopback.For[*corev1.ServiceAccount](access, corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
	testserver.Eventually(t, time.Minute, func() error {
		_, err := accounts.Get(t.Context(), types.NamespacedName{Namespace: "awaited", Name: "default"})
		return err
	})
}

// TestKeepUnknownOwners checks that objects with unknown owners are preserved if this is configured, and that
// objects with a deleted owner are deleted nevertheless.
func TestKeepUnknownOwners(t *testing.T) {
	t.Parallel()
	plane, err := New(newEnv(t), garbagePrefix, Options{Controllers: ControllerOptions{KeepUnknownOwners: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Close)
	if err := plane.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitControllers(t, plane.opened.Load().resources.access)
	client := loopback.For[*corev1.ConfigMap](plane.opened.Load().resources.access, configMaps)
	create := func(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
		t.Helper()
		created, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners}})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	reference := func(name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: uid}
	}
	create("of-unknown", reference("never", "0-1-2-3"))
	for i := range 20 { // sequentially, so that earlier objects have been processed
		owner := create(fmt.Sprint("owner", i))
		name := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("dependent", i)}
		create(name.Name, reference(owner.Name, owner.UID), reference("never", "0-1-2-3"))
		if err := client.Delete(t.Context(), types.NamespacedName{Namespace: "default", Name: owner.Name}, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		testserver.Eventually(t, time.Minute, func() error {
			if _, err := client.Get(t.Context(), name); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s still exists although its owner was deleted: %v", name, err)
			}
			return nil
		})
	}
	if _, err := client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "of-unknown"}); err != nil {
		t.Errorf("object with an unknown owner: %v", err)
	}
}

// dependents creates n ConfigMaps concurrently. If owner is nil, they have no owner.
func dependents(b *testing.B, i *instance, namespace string, n int, owner *metav1.OwnerReference) {
	b.Helper()
	client := loopback.For[*corev1.ConfigMap](i.resources.access, configMaps)
	errs := make(chan error)
	for worker := range 64 {
		go func() {
			for k := worker; k < n; k += 64 {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c%d", k)}, Data: map[string]string{"a": strings.Repeat("x", 500)}}
				if owner != nil {
					m.OwnerReferences = []metav1.OwnerReference{*owner}
				}
				if _, err := client.Create(b.Context(), m); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 64 {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
}

func newDiskPlane(b *testing.B) *instance {
	b.Helper()
	backend, err := embedded.Open(embedded.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	plane := newPlane(b, newEnvOn(b, backend), garbagePrefix)
	if err := plane.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	return plane.opened.Load()
}

// BenchmarkCollect deletes the owner of 10,000 objects, in a store on disk. It waits until these objects are
// deleted or, with the policy Orphan, until the owner is deleted.
func BenchmarkCollect(b *testing.B) {
	const n = 10_000
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		b.Run(string(policy), func(b *testing.B) {
			i := newDiskPlane(b)
			namespaces := loopback.For[*corev1.Namespace](i.resources.access, corev1.SchemeGroupVersion.WithResource("namespaces"))
			client := loopback.For[*corev1.ConfigMap](i.resources.access, configMaps)
			for round := 0; b.Loop(); round++ {
				b.StopTimer()
				ns := fmt.Sprintf("n%d", round)
				if _, err := namespaces.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
					b.Fatal(err)
				}
				owner, err := client.Create(b.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"}})
				if err != nil {
					b.Fatal(err)
				}
				dependents(b, i, ns, n, &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, BlockOwnerDeletion: new(true)})
				b.StartTimer()
				if err := client.Delete(b.Context(), types.NamespacedName{Namespace: ns, Name: "owner"}, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					b.Fatal(err)
				}
				prefix := garbagePrefix + "/configmaps/" + ns + "/c"
				if policy == metav1.DeletePropagationOrphan {
					prefix = garbagePrefix + "/configmaps/" + ns + "/owner"
				}
				awaitDeleted(b, i, prefix)
			}
		})
	}
}

// BenchmarkDeleteNamespace deletes a namespace that contains 10,000 objects, in a store on disk, and waits
// until it is deleted.
func BenchmarkDeleteNamespace(b *testing.B) {
	i := newDiskPlane(b)
	namespaces := loopback.For[*corev1.Namespace](i.resources.access, corev1.SchemeGroupVersion.WithResource("namespaces"))
	for b.Loop() {
		b.StopTimer()
		if _, err := namespaces.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}}); err != nil {
			b.Fatal(err)
		}
		dependents(b, i, "many", 10_000, nil)
		b.StartTimer()
		if err := namespaces.Delete(b.Context(), types.NamespacedName{Name: "many"}, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		awaitDeleted(b, i, garbagePrefix+"/namespaces/many")
	}
}

// awaitDeleted waits until no key with the prefix exists.
func awaitDeleted(b *testing.B, i *instance, prefix string) {
	b.Helper()
	testserver.Eventually(b, time.Minute, func() error {
		result, err := i.settings.env.Storage.Backend.Range(b.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix), Limit: 1})
		if err == nil && len(result.Entries) > 0 {
			err = fmt.Errorf("%s is still there", result.Entries[0].Key)
		}
		return err
	})
}
