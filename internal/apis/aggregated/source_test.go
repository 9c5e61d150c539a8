package aggregated

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/loopback"
	"mainstay.dev/mainstay/internal/storage"
)

var apples = schema.GroupVersion{Group: "fruit.example.com", Version: "v1"}

// newSource returns the source of a server that serves core v1 and the custom resources of example.com/v1. It
// performs no I/O.
func newSource(t *testing.T) *Source {
	t.Helper()
	s, err := New(Config{
		APIServices: struct{ storage.Interface }{}, Client: loopback.For[*apiregistrationv1.APIService](&loopback.Access{}, apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")), Own: []schema.GroupVersion{{Version: "v1"}},
		Served:  func(gv schema.GroupVersion) bool { return gv.Group == "example.com" && gv.Version == "v1" },
		Cluster: cluster{}, Resolver: nowhere{},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.dirty.drain()
	return s
}

// stored returns the record of an APIService. For a local APIService, service is empty.
func stored(name, service, label string, revision int64, priority Priority) *codec.Record {
	return storedWithUID("u", name, service, label, revision, priority)
}

func storedWithUID(uid types.UID, name, service, label string, revision int64, priority Priority) *codec.Record {
	gv := groupVersionOf(name)
	obj := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority.Group, VersionPriority: priority.Version},
	}
	if label != "" {
		obj.Labels = map[string]string{managedLabel: label}
	}
	if service != "" {
		obj.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "a", Name: service}
	}
	kind := &codec.Kind{Hub: &codec.Version{GVK: apiregistrationv1.SchemeGroupVersion.WithKind("APIService")}}
	return codec.RecordOf(kind, obj, nil, revision)
}

// TestUpdateOrder checks that the newest revision wins if reports of writes and watch events arrive
// out of order.
func TestUpdateOrder(t *testing.T) {
	t.Parallel()
	const name = "v1.fruit.example.com"
	type event struct {
		service  string // "" deletes
		revision int64
		watched  bool
	}
	tests := []struct {
		name   string
		events []event
		want   string
	}{
		{"written", []event{{"one", 5, false}}, "one"},
		{"written, then watched", []event{{"one", 5, false}, {"one", 5, true}}, "one"},
		{"an older event arrives later", []event{{"two", 6, false}, {"one", 5, true}}, "two"},
		{"a write is reported late", []event{{"two", 6, true}, {"one", 5, false}}, "two"},
		{"deleted", []event{{"one", 5, true}, {"", 6, false}}, ""},
		{"deleted while the watch is behind", []event{{"", 6, false}, {"one", 5, true}, {"", 6, true}}, ""},
		{"deleted and created again", []event{{"", 6, false}, {"two", 7, false}, {"one", 5, true}, {"", 6, true}, {"two", 7, true}}, "two"},
		{"a deletion is reported late", []event{{"", 6, true}, {"two", 7, true}, {"", 6, false}}, "two"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t)
			for _, e := range tt.events {
				if e.service == "" {
					s.remove(name, e.revision, e.watched)
				} else if err := s.update(stored(name, e.service, "", e.revision, Priority{100, 10}), e.watched); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if r := s.current.Load().remotes[apples]; r != nil {
				got = r.server.address.service.Name
			}
			if got != tt.want {
				t.Errorf("registered for %q, want %q", got, tt.want)
			}
		})
	}
}

// TestReplaced checks that an APIService that was deleted and created again is checked, even if the watch reports
// no deletion, as after a new list.
func TestReplaced(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	for i, step := range []struct {
		uid     types.UID
		checked bool
	}{{"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		if err := s.update(storedWithUID(step.uid, "v1.fruit.example.com", "one", "", int64(i+1), Priority{100, 10}), true); err != nil {
			t.Fatal(err)
		}
		checked := len(s.wakeChecks) > 0
		if checked {
			<-s.wakeChecks
		}
		if checked != step.checked {
			t.Errorf("revision %d with UID %s: checked: %t, want %t", i+1, step.uid, checked, step.checked)
		}
	}
}

func TestPriority(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	for i, record := range []*codec.Record{
		stored("v1.fruit.example.com", "one", "", 1, Priority{2000, 10}),
		stored("v1.example.com", "", always, 2, Priority{1000, 100}),
		stored("v1.", "", onStart, 3, Priority{5, 6}),
		stored("v1.apiregistration.k8s.io", "one", "", 4, Priority{5, 6}),
	} {
		before := s.Generation()
		if err := s.Observe(record); err != nil {
			t.Fatal(err)
		}
		if changed := s.Generation() != before; changed != (i == 0 || i == 2) {
			t.Errorf("%s: changed %t", record.Name().Name, changed)
		}
	}
	for gv, want := range map[schema.GroupVersion]Priority{
		apples: {2000, 10}, {Group: "example.com", Version: "v1"}: {1000, 100}, {Version: "v1"}: {5, 6}, {Group: "other.example.com", Version: "v9"}: {1000, 100},
	} {
		if group, version := s.Priority(gv); (Priority{group, version}) != want {
			t.Errorf("%v: %d, %d, want %v", gv, group, version, want)
		}
	}
	if s.Handler(apples) == nil || s.Handler(schema.GroupVersion{Version: "v1"}) != nil {
		t.Error("a local group version has a proxy, or a remote one has none")
	}
	if s.Handler(apiregistrationv1.SchemeGroupVersion) != nil {
		t.Error("another server is registered for apiregistration.k8s.io")
	}
}

// TestServersAreShared checks that registrations with the same address share a server, and that its discovery
// survives a change of priority.
func TestServersAreShared(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	for i, name := range []string{"v1.fruit.example.com", "v2.fruit.example.com"} {
		if err := s.Observe(stored(name, "one", "", int64(i+1), Priority{100, 10})); err != nil {
			t.Fatal(err)
		}
	}
	remotes := s.current.Load().remotes
	if one := remotes[apples].server; one != remotes[schema.GroupVersion{Group: apples.Group, Version: "v2"}].server {
		t.Error("registrations with the same address have different servers")
	}
	known := &apidiscovery.APIVersionDiscovery{Version: "v1", Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	s.setResources(remotes[apples], known)
	if err := s.Observe(stored("v1.fruit.example.com", "one", "", 9, Priority{200, 10})); err != nil {
		t.Fatal(err)
	}
	if s.Remotes()[apples] != known {
		t.Error("the discovery was lost")
	}
	if err := s.Observe(stored("v1.fruit.example.com", "two", "", 10, Priority{200, 10})); err != nil {
		t.Fatal(err)
	}
	if got := s.Remotes()[apples].Freshness; got != apidiscovery.DiscoveryFreshnessStale {
		t.Errorf("the discovery of the previous server is used for another one: %s", got)
	}
}

// TestIsUpToDate checks which APIServices autoregistration must correct or delete.
func TestIsUpToDate(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	usual := customPriority
	tests := []struct {
		name, service, label string
		priority             Priority
		starting, want       bool
	}{
		{"v1.example.com", "", always, usual, false, true},
		{"v1.example.com", "", always, Priority{1, 1}, false, false},
		{"v1.example.com", "one", always, usual, false, false},
		{"v1.example.com", "one", "", usual, false, true},        // created by a user
		{"v2.example.com", "", always, usual, false, false},      // not served
		{"v2.example.com", "", "", usual, true, true},            // not served, but created by a user
		{"v1.", "", onStart, Priority{1, 1}, false, true},        // changed while the server runs
		{"v1.", "", onStart, Priority{1, 1}, true, false},        // corrected at the start
		{"v1.old.example.com", "", onStart, usual, true, false},  // built in before an upgrade
		{"v1.old.example.com", "", onStart, usual, false, true},  // the same, while the server runs
		{"v1.", "", onStart, Priority{18000, 1}, true, true},     // as registered
		{"v1.example.com", "", "nonsense", usual, true, true},    // an unknown label value
		{"v1.apiregistration.k8s.io", "", "", usual, true, true}, // never changed
	}
	for _, tt := range tests {
		service, err := serviceOf(stored(tt.name, tt.service, tt.label, 1, tt.priority))
		if err != nil {
			t.Fatal(err)
		}
		gv := groupVersionOf(tt.name)
		if got := s.isUpToDate(service, gv, s.desiredLabel(gv), tt.starting); got != tt.want {
			t.Errorf("isUpToDate for %+v: %t, want %t", tt, got, tt.want)
		}
	}
}

func TestDirtySet(t *testing.T) {
	t.Parallel()
	m := newDirtySet()
	for _, name := range []string{"b", "a", "b", "c"} {
		m.add(name)
	}
	m.remove("c")
	if got := m.drain(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("drained names %v, want [a b]", got)
	}
	if got := m.drain(); len(got) != 0 {
		t.Errorf("second drain: %v", got)
	}
	m.add("before")
	var queued []autoregistration
	m.start(func(added autoregistration) { queued = append(queued, added) })
	m.add("after")
	if want := []autoregistration{{"before", true}, {"after", false}}; !slices.Equal(queued, want) {
		t.Errorf("queued %v, want %v", queued, want)
	}
}

// TestOwnPriorities checks that built-in groups are in kube-apiserver's order.
func TestOwnPriorities(t *testing.T) {
	t.Parallel()
	order := []string{
		"apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io",
		"policy", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
		"coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io",
	}
	sorted := slices.Clone(order)
	slices.Sort(sorted)
	slices.SortStableFunc(sorted, func(a, b string) int { return int(builtInGroupPriority(b) - builtInGroupPriority(a)) })
	if diff := cmp.Diff(order, sorted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
