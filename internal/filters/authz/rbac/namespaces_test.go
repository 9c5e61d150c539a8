package rbac

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// newVisible returns an Authorizer that caches namespace sets and has the role "reader" for pods.
func newVisible() *Authorizer {
	a := New(nil, nil, nil)
	a.CacheNamespaces()
	a.index.setRole(roleKey{name: "reader"}, []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}})
	return a
}

// bind binds the role in a namespace at a revision; "" binds it cluster-wide.
func (a *Authorizer) bind(revision int64, namespace string, subjects ...rbacv1.Subject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index.setRevision(revision)
	a.index.setBinding(roleKey{namespace, "reading"}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "reader"}, subjects)
}

func (a *Authorizer) unbind(revision int64, namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index.setRevision(revision)
	a.index.removeBinding(roleKey{namespace, "reading"})
}

func listing(user string, groups ...string) *authorizer.Attributes {
	return &authorizer.Attributes{User: &request.User{Name: user, Groups: groups}, ResourceRequest: true, Verb: "list", Resource: "pods"}
}

func jane() rbacv1.Subject { return rbacv1.Subject{Kind: rbacv1.UserKind, Name: "jane"} }

// text formats a set.
func text(n *request.Namespaces) string {
	if n == nil {
		return "all"
	}
	return strings.Join(n.Names(), " ")
}

// TestNamespaces checks bindings to users, groups and service accounts.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	a := newVisible()
	a.bind(1, "a", jane())
	a.bind(2, "b", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "team"}, jane())
	a.bind(3, "c", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "team"})
	a.bind(4, "d", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot"})
	a.bind(5, "", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "all"})
	for _, test := range []struct {
		attributes *authorizer.Attributes
		want       string
	}{
		{listing("jane"), "a b"},
		{listing("jane", "team"), "a b c"},
		{listing("joe", "team"), "b c"},
		{listing("joe", "team", "all"), "all"},
		{listing("joe", `team""all`), "none"},
		{listing("system:serviceaccount:d:robot"), "d"},
		{listing("joe"), "none"},
		{&authorizer.Attributes{User: &request.User{Name: "jane"}, ResourceRequest: true, Verb: "watch", Resource: "pods"}, "none"},
		{&authorizer.Attributes{}, "none"},
	} {
		got := "none"
		if v := a.View(test.attributes, true); v != nil {
			got = text(v.Now())
			v.Close()
		}
		if got != test.want {
			t.Errorf("%+v: %s, want %s", test.attributes.User, got, test.want)
		}
	}
}

// TestRevisions checks that a watch can resume only from revisions at which the client has seen the
// current set of namespaces.
func TestRevisions(t *testing.T) {
	t.Parallel()
	a := newVisible()
	a.bind(10, "a", jane())
	v := a.View(listing("jane"), true)
	defer v.Close()
	resumes := func(revision int64, want bool) {
		t.Helper()
		if _, _, ok := v.Resume(revision); ok != want {
			t.Errorf("resume from %d: %t, want %t", revision, ok, want)
		}
	}
	resumes(9, false) // before the set was cached
	resumes(10, true)
	first := v.Now()
	_, changed, _ := v.Resume(12)
	a.bind(20, "b", jane())
	select {
	case <-changed:
	default:
		t.Error("the channel was not closed after a change")
	}
	if v.IsCurrent(first, 25) {
		t.Error("IsCurrent returned true for an earlier set")
	}
	resumes(19, false)
	resumes(20, true)
	// The watch reaches revision 40 before it receives the change of permissions at revision 30.
	before := v.Now()
	if now, _, _ := v.Advance(before, 40); now != before {
		t.Error("Advance returned another set although nothing has changed")
	}
	a.unbind(30, "b")
	resumes(40, false)
	resumes(41, true)
	// The difference is sent at revision 50. The client can resume from 50, but not from an earlier
	// revision.
	if now, _, ok := v.Advance(before, 50); !ok || text(now) != "a" {
		t.Errorf("Advance to revision 50: %s %t", text(now), ok)
	}
	resumes(49, false)
	resumes(50, true)
	// A change that does not affect the user does not change the revision.
	a.bind(60, "a", jane(), rbacv1.Subject{Kind: rbacv1.UserKind, Name: "joe"})
	a.bind(61, "c", rbacv1.Subject{Kind: rbacv1.UserKind, Name: "joe"})
	resumes(55, true)
}

// TestChangeDuringAdvance checks that a watch cannot resume from a revision that it reached before it
// received a concurrent change of permissions.
func TestChangeDuringAdvance(t *testing.T) {
	t.Parallel()
	a := newVisible()
	a.bind(1, "a", jane())
	v := a.View(listing("jane"), true)
	defer v.Close()
	sent := int64(1) // the last revision with the previous namespaces
	for n := range 20_000 {
		before, done := v.Now(), make(chan struct{})
		go func() {
			defer close(done)
			for next := sent + 1; ; next++ {
				now, changed, _ := v.Advance(before, next)
				if now != before {
					return
				}
				sent = next
				select {
				case <-changed:
					v.Advance(before, sent) // does not advance
					return
				default:
				}
			}
		}()
		if n%2 == 0 {
			a.bind(2, "b", jane())
		} else {
			a.unbind(2, "b")
		}
		<-done
		if _, _, ok := v.Resume(sent); ok {
			t.Fatalf("change %d: a watch resumes from revision %d, which it reached with the previous namespaces", n, sent)
		}
	}
}

// TestClusterPermissionLost checks that a watch of all namespaces ends when the permission is lost, if
// another authorizer might still allow it.
func TestClusterPermissionLost(t *testing.T) {
	t.Parallel()
	for alone, want := range map[bool]bool{true: true, false: false} {
		a := newVisible()
		a.bind(1, "", jane())
		v := a.View(listing("jane"), alone)
		a.unbind(2, "")
		if now, _, ok := v.Advance(nil, 3); ok != want || ok && len(now.Names()) != 0 {
			t.Errorf("alone %t: watch continues: %t, with %s", alone, ok, text(now))
		}
		v.Close()
	}
}

// TestSetsEvicted checks that a limited number of unused sets is cached, and that no set is
// stored for users without permissions.
func TestSetsEvicted(t *testing.T) {
	t.Parallel()
	a := newVisible()
	a.bind(5, "a", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "team"})
	used := a.View(listing("used", "team"), true)
	for n := range 2 * maxIdleSets {
		a.View(listing(fmt.Sprint("user-", n), "team"), true).Close()
		a.View(listing(fmt.Sprint("nobody-", n)), true)
	}
	sets := a.index.sets
	if len(sets.all) != maxIdleSets+1 || len(sets.idle) != maxIdleSets || len(sets.bySubject) != maxIdleSets+2 {
		t.Errorf("%d sets, %d idle, of %d subjects", len(sets.all), len(sets.idle), len(sets.bySubject))
	}
	if again := a.View(listing("used", "team"), true); again.set != used.set {
		t.Error("a set in use was computed again")
	}
}

// BenchmarkView measures View for a group with bindings in 1,000 namespaces, with a cached and with
// a new set.
func BenchmarkView(b *testing.B) {
	a := newVisible()
	for n := range 1000 {
		a.bind(int64(n+1), fmt.Sprintf("namespace-%d", n), rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "team"})
	}
	attributes := listing("jane", "team", "system:authenticated")
	a.View(attributes, true).Close()
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v := a.View(attributes, true)
			if len(v.Now().Names()) != 1000 {
				b.Fatal(text(v.Now()))
			}
			v.Close()
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		revision := int64(1000)
		for b.Loop() {
			revision++
			a.bind(revision, "namespace-0", rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "team"})
			v := a.View(attributes, true)
			v.Now()
			v.Close()
		}
	})
}
