package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/egress/selector/selectortest"
	"mainstay.dev/mainstay/internal/storage/backup"
	"mainstay.dev/mainstay/internal/storage/backup/target"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/test/testserver"
)

// createConfigMap creates a ConfigMap with one value.
func (r *running) createConfigMap(t testing.TB, name, value string) {
	t.Helper()
	r.must(t, "POST", configMapPath, fmt.Sprintf(`{"metadata":{"name":%q},"data":{"k":%q}}`, name, value))
}

// setConfigMap changes the value of a ConfigMap.
func (r *running) setConfigMap(t testing.TB, name, value string) {
	t.Helper()
	r.patch(t, configMapPath+"/"+name, fmt.Sprintf(`{"data":{"k":%q}}`, value))
}

// values returns the values of the ConfigMaps in the default namespace by name.
func (r *running) values(t testing.TB) map[string]string {
	t.Helper()
	var list corev1.ConfigMapList
	r.read(t, configMapPath, &list)
	values := map[string]string{}
	for i := range list.Items {
		if value, ok := list.Items[i].Data["k"]; ok {
			values[list.Items[i].Name] = value
		}
	}
	return values
}

func (r *running) expectValues(t testing.TB, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, r.values(t)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", r.URL, diff)
	}
}

// pins returns the owners of the pins in the store.
func (r *running) pins(t testing.TB) []string {
	t.Helper()
	pins, err := r.host.store.backend.(kv.Pinner).Pins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	owners := sets.Set[string]{}
	for _, pin := range pins {
		owners.Insert(pin.Owner)
	}
	return sets.List(owners)
}

// compact compacts the store at the newest revision.
func (r *running) compact(t testing.TB) {
	t.Helper()
	newest, err := r.host.store.backend.CurrentRevision(t.Context())
	if err == nil {
		err = r.host.store.backend.Compact(t.Context(), newest)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// closeAll closes idle control planes, and waits until the given control planes are closed.
func (r *running) closeAll(t testing.TB, names ...string) {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		r.host.fleet.CloseIdle(0)
		for _, name := range names {
			if r.host.fleet.IsOpen(name) {
				return errors.New("the control plane " + name + " is still open")
			}
		}
		return nil
	})
}

// TestFork forks the root control plane, and checks that later changes in one of them do not affect the other.
func TestFork(t *testing.T) {
	t.Parallel()
	config := Config{Storage: StorageConfig{DataDir: t.TempDir()}}
	s := start(t, config)
	s.tenant(t, "other", `{}`)
	s.awaitAccount(t, "default")
	for _, name := range []string{"same", "changed", "deleted"} {
		s.createConfigMap(t, name, "root")
	}
	establish(t, dynamicClient(t, s), definitionOf("example.com", "Widget", map[string]string{"v1": `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`}, "v1"))
	s.must(t, "POST", "/apis/example.com/v1/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`)
	s.must(t, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"x"}}`)
	s.must(t, "POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"x"},"involvedObject":{"namespace":"default"}}`)
	s.must(t, "POST", secretPath, `{"metadata":{"name":"own-kubeconfig"}}`)
	before := s.must(t, "GET", configMapPath+"/same", "")

	f := s.tenant(t, "fork", `{"from":{}}`)
	if after := f.must(t, "GET", configMapPath+"/same", ""); after != before {
		t.Errorf("the copy is %s, want %s", after, before)
	}
	f.must(t, "GET", "/apis/example.com/v1/widgets/w", "")
	f.must(t, "GET", secretPath+"/own-kubeconfig", "")
	for _, path := range []string{secretPath + "/other-kubeconfig", secretPath + "/fork-kubeconfig", controlPlanePath, "/apis/coordination.k8s.io/v1/namespaces/default/leases/x", "/api/v1/namespaces/default/events/x"} {
		f.expectCode(t, 404, "", "GET", path)
	}

	f.setConfigMap(t, "changed", "fork")
	f.createConfigMap(t, "created", "fork")
	f.must(t, "DELETE", configMapPath+"/deleted", "")
	s.setConfigMap(t, "same", "changed root")
	s.createConfigMap(t, "later", "root")
	inFork := map[string]string{"same": "root", "changed": "fork", "created": "fork"}
	inRoot := map[string]string{"same": "changed root", "changed": "root", "deleted": "root", "later": "root"}
	f.expectValues(t, inFork)
	s.expectValues(t, inRoot)

	// The values remain the same after a compaction, after the fork was closed, and after a restart.
	s.compact(t)
	s.closeAll(t, "fork")
	f.expectValues(t, inFork)
	s.end(t)
	s = start(t, config)
	f = s.reenter(t, "fork")
	f.expectValues(t, inFork)
	s.expectValues(t, inRoot)

	if pins := s.pins(t); len(pins) != 1 || pins[0] != string(s.controlPlane(t, "fork").UID) {
		t.Errorf("pins %v", pins)
	}
	s.must(t, "DELETE", controlPlanePath+"/fork", "")
	s.awaitCode(t, controlPlanePath+"/fork", 404)
	if pins := s.pins(t); len(pins) > 0 {
		t.Errorf("pins %v remain", pins)
	}
}

// TestForkOfForks creates a chain of forks and deletes the intermediate forks. It checks that the last fork
// still contains all objects.
func TestForkOfForks(t *testing.T) {
	t.Parallel()
	const depth = 10
	s := start(t, Config{})
	s.tenant(t, "f0", `{}`).createConfigMap(t, "0", "0")
	want := map[string]string{"0": "0"}
	for i := 1; i <= depth; i++ {
		f := s.tenant(t, fmt.Sprint("f", i), fmt.Sprintf(`{"from":{"controlPlane":"f%d"}}`, i-1))
		f.createConfigMap(t, fmt.Sprint(i), fmt.Sprint(i))
		f.setConfigMap(t, "0", fmt.Sprint(i))
		if i > 1 {
			f.must(t, "DELETE", configMapPath+"/"+fmt.Sprint(i-1), "")
			delete(want, fmt.Sprint(i-1))
		}
		want["0"], want[fmt.Sprint(i)] = fmt.Sprint(i), fmt.Sprint(i)
		f.expectValues(t, want)
	}
	for i := range depth {
		s.must(t, "DELETE", fmt.Sprint(controlPlanePath, "/f", i), "")
		s.awaitCode(t, fmt.Sprint(controlPlanePath, "/f", i), 404)
	}
	s.compact(t)
	last := fmt.Sprint("f", depth)
	s.closeAll(t, last)
	f := s.enter(t, last)
	f.expectValues(t, want)
	if f.role(t, "view").UID == "" {
		t.Error("a default role is missing")
	}
}

// TestForkOfLongChain checks that a fork at the end of a long chain copies the objects, and begins a new chain.
func TestForkOfLongChain(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Storage: StorageConfig{DataDir: t.TempDir()}})
	s.createConfigMap(t, "x", "root")
	s.tenant(t, "fork1", `{"from":{}}`).createConfigMap(t, "y", "fork1")
	const length = 18
	for i := 2; i <= length; i++ {
		s.declare(t, fmt.Sprint("fork", i), fmt.Sprintf(`{"from":{"controlPlane":"fork%d"}}`, i-1))
	}
	s.awaitPhase(t, fmt.Sprint("fork", length), controlplanes.Ready)
	pins := map[string]int{}
	all, err := s.host.store.backend.(kv.Pinner).Pins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range all {
		pins[pin.Owner]++
	}
	for i, want := range map[int]int{1: 1, 16: 16, 17: 0, 18: 1} {
		if got := pins[string(s.controlPlane(t, fmt.Sprint("fork", i)).UID)]; got != want {
			t.Errorf("fork %d has %d pins, want %d", i, got, want)
		}
	}
	s.must(t, "DELETE", controlPlanePath+"/fork16", "")
	for _, i := range []int{15, 17, 18} {
		s.enter(t, fmt.Sprint("fork", i)).expectValues(t, map[string]string{"x": "root", "y": "fork1"})
	}
}

// TestForkAtTime forks an earlier state and the current state of a control plane.
func TestForkAtTime(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Storage: StorageConfig{Embedded: EmbeddedConfig{HistoryRetention: time.Minute}}})
	a := s.tenant(t, "a", `{}`)
	a.createConfigMap(t, "x", "before")
	newest, err := s.host.store.backend.CurrentRevision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var moment time.Time
	testserver.Eventually(t, time.Minute, func() error { // the store records times at intervals
		moment = time.Now().Truncate(time.Second)
		if at, err := s.host.store.backend.RevisionAt(t.Context(), moment); err != nil || at < newest {
			return fmt.Errorf("the revision at %s is %d, %v", moment, at, err)
		}
		return nil
	})
	a.setConfigMap(t, "x", "after")
	s.tenant(t, "b", fmt.Sprintf(`{"from":{"controlPlane":"a","time":%q}}`, moment.UTC().Format(time.RFC3339))).expectValues(t, map[string]string{"x": "before"})
	s.tenant(t, "c", `{"from":{"controlPlane":"a"}}`).expectValues(t, map[string]string{"x": "after"})
}

// TestForkErrors checks that invalid sources are rejected, that missing sources are reported in the status, and
// that a fork is created when its source appears.
func TestForkErrors(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for name, tt := range map[string]struct{ spec, want string }{
		"root": {`{}`, "metadata.name cannot be root"},
		"self": {`{"from":{"controlPlane":"self"}}`, "spec.from.controlPlane must be another control plane"},
		"time": {`{"from":{"time":"yesterday"}}`, "spec.from.time"},
		"call": {`{"from":{"outgoingCalls":"Some"}}`, "spec.from.outgoingCalls"},
	} {
		body := fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":%q},"spec":%s}`, name, tt.spec)
		if code, text := s.do(t, "POST", controlPlanePath, body); code != 422 && code != 400 || !strings.Contains(text, tt.want) {
			t.Errorf("create %s: %d %s, want %q", name, code, text, tt.want)
		}
	}
	s.declare(t, "early", `{"from":{"controlPlane":"late"}}`)
	s.declare(t, "past", `{"from":{"time":"2020-01-01T00:00:00Z"}}`)
	s.declare(t, "future", `{"from":{"time":"2200-01-01T00:00:00Z"}}`)
	s.declare(t, "beyond", `{"from":{"resourceVersion":"900000000000000000"}}`)
	for name, reason := range map[string]string{"early": "SourceNotFound", "past": "SourceExpired", "future": "SourceInvalid", "beyond": "SourceInvalid"} {
		testserver.Eventually(t, time.Minute, func() error {
			object := s.controlPlane(t, name)
			if len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Reason != reason || object.Status.Phase != controlplanes.Pending {
				return fmt.Errorf("%s: status %+v, want the reason %s", name, object.Status, reason)
			}
			return nil
		})
	}
	for _, change := range []string{`{"spec":{"from":{"controlPlane":"other"}}}`, `{"spec":{"from":null}}`, `{"spec":null}`} {
		code, text := s.send(t, "PATCH", controlPlanePath+"/early", change, "Content-Type", "application/merge-patch+json")
		if code != 422 || !strings.Contains(text, "spec.from is immutable") {
			t.Errorf("patch with %s: %d %s, want code 422", change, code, text)
		}
	}
	if pins := s.pins(t); len(pins) > 0 {
		t.Errorf("pins %v", pins)
	}
	// The source, which is a fork itself, is created later.
	s.declare(t, "late", `{"from":{"controlPlane":"last"}}`)
	s.declare(t, "last", `{}`)
	for _, name := range []string{"late", "early"} {
		s.awaitPhase(t, name, controlplanes.Ready)
	}
}

// TestForkEncrypted forks control planes if all resources are encrypted.
func TestForkEncrypted(t *testing.T) {
	t.Parallel()
	config := Config{Storage: StorageConfig{DataDir: t.TempDir(), Encryption: EncryptionConfig{
		File: encryptionConfig(t, filepath.Join(t.TempDir(), "config"), "'*.*'", keyed("secretbox", "k")),
	}}}
	s := start(t, config)
	a := s.tenant(t, "a", `{}`)
	a.createConfigMap(t, "x", "a")
	b := s.tenant(t, "b", `{"from":{"controlPlane":"a"}}`)
	b.createConfigMap(t, "y", "b")
	c := s.tenant(t, "c", `{"from":{"controlPlane":"b"}}`)
	c.setConfigMap(t, "x", "c")
	c.expectValues(t, map[string]string{"x": "c", "y": "b"})
	b.expectValues(t, map[string]string{"x": "a", "y": "b"})
	a.expectValues(t, map[string]string{"x": "a"})
}

// TestForkCredentials checks that tokens of the source are not valid in a fork, and that tokens of a fork
// are not valid in the source.
func TestForkCredentials(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	a := s.tenant(t, "a", `{}`)
	a.awaitAccount(t, "default")
	b := s.tenant(t, "b", `{"from":{"controlPlane":"a"}}`)
	anyone := client(t, nil)
	tokens := map[*running]string{a: a.accountToken(t), b: b.accountToken(t)}
	for server := range tokens {
		for of, token := range tokens {
			want := 401
			if server == of {
				want = 403 // the token is valid, but its user has no permissions
			}
			if code, text := server.sendBy(t, anyone, "GET", configMapPath, "", "Authorization", "Bearer "+token); code != want {
				t.Errorf("the token of %s at %s: %d %s, want code %d", of.URL, server.URL, code, text, want)
			}
		}
	}
}

// TestForkCalls checks that a fork does not call webhooks, aggregated servers or kubelets, unless its spec
// permits such calls.
func TestForkCalls(t *testing.T) {
	t.Parallel()
	everything := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(everything.Close)
	proxy := &selectortest.Proxy{Redirect: func(string) string { return everything.Listener.Addr().String() }}
	s := start(t, Config{Egress: EgressConfig{SelectorConfigFile: egressConfig(t, map[string]*selectortest.Proxy{"controlplane": proxy, "cluster": proxy})}})
	dialed := func(name string) bool {
		return slices.ContainsFunc(proxy.Addresses(), func(address string) bool { return strings.HasPrefix(address, name) })
	}
	for i, policy := range []string{"Deny", "Allow"} {
		name, node := strings.ToLower(policy), fmt.Sprintf("10.0.0.%d", i+1)
		f := s.tenant(t, name, fmt.Sprintf(`{"from":{"outgoingCalls":%q}}`, policy))
		for _, one := range []struct{ path, body string }{
			{"/api/v1/nodes", fmt.Sprintf(`{"metadata":{"name":"n"},"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, node)},
			{"/api/v1/namespaces/default/services", fmt.Sprintf(`{"metadata":{"name":"more"},"spec":{"type":"ExternalName","externalName":"more-%s.invalid"}}`, name)},
			{"/apis/apiregistration.k8s.io/v1/apiservices", `{"metadata":{"name":"v1.more.example.com"},"spec":{"group":"more.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"more"}}}`},
			{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"hooks"},"webhooks":[` + webhookFor("url", fmt.Sprintf(`"url":"https://hook-%s.invalid:8443/"`, name)) + `]}`},
		} {
			f.must(t, "POST", one.path, one.body)
		}
		created := 0
		create := func() { created++; f.createConfigMap(t, fmt.Sprint("c", created), "") }
		if policy == "Allow" {
			testserver.Eventually(t, time.Minute, func() error { // waits until the webhook takes effect and the aggregated server is checked
				create()
				f.send(t, "GET", "/api/v1/nodes/n/proxy/", "")
				for _, address := range []string{node, "more-allow", "hook-allow"} {
					if !dialed(address) {
						return fmt.Errorf("%s was not called", address)
					}
				}
				return nil
			})
			continue
		}
		for _, path := range []string{"/apis/more.example.com/v1", "/api/v1/nodes/n/proxy/"} {
			f.expectCode(t, 503, "", "GET", path)
		}
		testserver.Eventually(t, time.Minute, func() error {
			create()
			if text := f.must(t, "GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.more.example.com", ""); !strings.Contains(text, "spec.from.outgoingCalls=Allow permits it") {
				return fmt.Errorf("the APIService is %s", text)
			}
			return nil
		})
		for _, address := range []string{node, "more-deny", "hook-deny"} {
			if dialed(address) {
				t.Errorf("%s was called", address)
			}
		}
	}
}

// TestForkPermission checks that only users who have access to the source can create a fork.
func TestForkPermission(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.tenant(t, "a", `{}`)
	s.tenant(t, "b", `{}`)
	jane := s.certificateClient(t, "jane", "devs")
	grant := func(rules string) {
		s.must(t, "POST", clusterRolePath, fmt.Sprintf(`{"metadata":{"name":"forks"},"rules":[%s]}`, rules))
		s.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			`{"metadata":{"name":"forks"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"forks"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	}
	grant(`{"apiGroups":["mainstay.dev"],"resources":["controlplanes"],"verbs":["create"]},{"apiGroups":["mainstay.dev"],"resources":["controlplanes"],"resourceNames":["a"],"verbs":["access"]}`)
	number := 0
	fork := func(from string) (int, string) {
		number++
		return s.sendBy(t, jane, "POST", controlPlanePath, fmt.Sprintf(`{"apiVersion":"mainstay.dev/v1","kind":"ControlPlane","metadata":{"name":"f%d"},"spec":%s}`, number, from))
	}
	testserver.Eventually(t, time.Minute, func() error { // waits until the binding takes effect
		if code, text := fork(`{}`); code != 201 {
			return fmt.Errorf("create a control plane: %d %s", code, text)
		}
		return nil
	})
	for spec, want := range map[string]struct {
		code int
		text string
	}{
		`{"from":{"controlPlane":"a"}}`: {201, ""},
		`{"from":{"controlPlane":"b"}}`: {403, `spec.from requires the verb \"access\" for the control plane \"b\"`},
		`{"from":{}}`:                   {403, "spec.from requires all permissions"},
	} {
		if code, text := fork(spec); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("create with the specification %s: %d %s, want %d %s", spec, code, text, want.code, want.text)
		}
	}
}

// TestForkOfHistory forks a state of the root control plane that only the history contains.
func TestForkOfHistory(t *testing.T) {
	t.Parallel()
	config := Config{Storage: StorageConfig{DataDir: t.TempDir()}}
	config.Storage.History.MaxAge = time.Hour
	config.Storage.Embedded.HistoryRetention = time.Second
	s := start(t, config)
	s.createConfigMap(t, "x", "before")
	s.createConfigMap(t, "deleted", "before")
	moment := time.Now().Truncate(time.Second).Add(time.Second) // the history records times in whole seconds
	testserver.Eventually(t, time.Minute, func() error {
		if now := time.Now(); now.Before(moment.Add(time.Second)) {
			return fmt.Errorf("the time is %s, want at least %s", now, moment.Add(time.Second))
		}
		return nil
	})
	s.must(t, "DELETE", configMapPath+"/deleted", "")
	s.setConfigMap(t, "x", "after")
	store := s.host.store.backend
	changed, err := store.CurrentRevision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testserver.Eventually(t, time.Minute, func() error { // the store cannot compact changes before the history has stored them
		s.compact(t)
		if compacted, err := store.CompactedRevision(t.Context()); err != nil || compacted < changed {
			return fmt.Errorf("the store is compacted to revision %d, want at least %d, error %v", compacted, changed, err)
		}
		return nil
	})
	f := s.tenant(t, "fork", fmt.Sprintf(`{"from":{"time":%q}}`, moment.UTC().Format(time.RFC3339)))
	want := map[string]string{"x": "before", "deleted": "before"}
	f.expectValues(t, want)
	if pins := s.pins(t); len(pins) > 0 {
		t.Errorf("pins %v", pins)
	}
	f.setConfigMap(t, "x", "fork")
	want["x"] = "fork"
	s.end(t)
	s = start(t, config)
	s.reenter(t, "fork").expectValues(t, want)
	s.expectValues(t, map[string]string{"x": "after"})
}

// TestForkChanges checks the list of a fork's changes.
func TestForkChanges(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.awaitAccount(t, "default")
	for _, name := range []string{"same", "changed", "deleted", "restored"} {
		s.createConfigMap(t, name, "root")
	}
	f := s.tenant(t, "fork", `{"from":{}}`)
	f.createConfigMap(t, "created", "fork")
	f.createConfigMap(t, "gone", "fork")
	f.setConfigMap(t, "changed", "fork")
	for _, name := range []string{"deleted", "gone"} {
		f.must(t, "DELETE", configMapPath+"/"+name, "")
	}
	f.setConfigMap(t, "restored", "fork")
	f.setConfigMap(t, "restored", "root")
	f.must(t, "POST", "/api/v1/namespaces/default/events", `{"metadata":{"name":"x"},"involvedObject":{"namespace":"default"}}`)
	// An object that cannot be decoded does not hide the other changes.
	uid := s.controlPlane(t, "fork").UID
	damaged := kv.Op{Key: "/registry.controlplanes/" + string(uid) + "/registry/configmaps/default/damaged", Value: []byte("x")}
	if _, err := s.host.store.backend.Commit(t.Context(), damaged); err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []history.Change }
	f.read(t, "/mainstay/v1/fork/changes", &list)
	got := map[string]string{}
	for i := range list.Items {
		c := &list.Items[i]
		got[c.Object.Resource+"/"+c.Namespace+"/"+c.Object.Name] = fmt.Sprint(c.Operation, " ", c.Fields, c.Before != nil, c.After != nil)
	}
	want := map[string]string{
		"configmaps/default/changed": "Updated [data.k] true true", "configmaps/default/created": "Created [] false true", "configmaps/default/deleted": "Deleted [] true false",
		"configmaps/default/damaged": "Created [] false false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	s.expectCode(t, 404, "", "GET", "/mainstay/v1/fork/changes")
}

// TestForkAfterRestore checks that the status of a fork reports that the state of its source is lost.
func TestForkAfterRestore(t *testing.T) {
	t.Parallel()
	config := Config{Storage: StorageConfig{DataDir: t.TempDir()}}
	config.Storage.History.MaxAge = -1 // a history would retain the state of the source
	s := start(t, config)
	s.createConfigMap(t, "x", "root")
	s.tenant(t, "fork", `{"from":{}}`)
	uid := string(s.controlPlane(t, "fork").UID)
	if err := s.host.store.backend.(kv.Pinner).Unpin(t.Context(), uid); err != nil {
		t.Fatal(err)
	}
	s.createConfigMap(t, "y", "root")
	s.compact(t)
	s.end(t)
	s = start(t, config)
	testserver.Eventually(t, time.Minute, func() error {
		object := s.controlPlane(t, "fork")
		if len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Reason != "SourceLost" {
			return fmt.Errorf("status %+v, want the reason SourceLost", object.Status)
		}
		return nil
	})
	s.expectCode(t, 503, "no longer has revision", "GET", "/clusters/fork"+configMapPath)
	s.must(t, "DELETE", controlPlanePath+"/fork", "")
	s.awaitCode(t, controlPlanePath+"/fork", 404)
}

// TestForkInCopies checks that forks are part of snapshots and of continuous backups.
func TestForkInCopies(t *testing.T) {
	t.Parallel()
	var snapshot bytes.Buffer
	backups := "file://" + t.TempDir()
	for name, copied := range map[string]struct {
		config  BackupConfig
		save    func(*running) error
		restore func(dir string) error
	}{
		"snapshot": {
			save: func(s *running) error {
				_, err := s.host.store.backend.Snapshot(t.Context(), &snapshot)
				return err
			},
			restore: func(dir string) error { return embedded.Restore(&snapshot, dir) },
		},
		"backup": {
			config:  BackupConfig{To: backups},
			save:    func(*running) error { return nil }, // the server uploads the remaining changes when it stops
			restore: func(dir string) error { return restoreBackup(t.Context(), backups, dir) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := Config{Storage: StorageConfig{DataDir: t.TempDir(), Backup: copied.config}}
			s := start(t, config)
			for _, name := range []string{"x", "y", "z"} {
				s.createConfigMap(t, name, "root")
			}
			f := s.tenant(t, "fork", `{"from":{}}`)
			s.setConfigMap(t, "x", "changed")
			s.must(t, "DELETE", configMapPath+"/y", "")
			f.setConfigMap(t, "z", "fork")
			if err := copied.save(s); err != nil {
				t.Fatal(err)
			}
			s.end(t)
			store := filepath.Join(config.Storage.DataDir, "store")
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := copied.restore(store); err != nil {
				t.Fatal(err)
			}
			s = start(t, config)
			s.expectValues(t, map[string]string{"x": "changed", "z": "root"})
			s.reenter(t, "fork").expectValues(t, map[string]string{"x": "root", "y": "root", "z": "fork"})
		})
	}
}

// restoreBackup restores the newest state of a continuous backup.
func restoreBackup(ctx context.Context, url, dir string) error {
	from, err := target.Open(url)
	if err != nil {
		return err
	}
	catalog, err := backup.ReadCatalog(ctx, from)
	if err != nil {
		return err
	}
	plan, err := catalog.Plan(backup.Moment{}, "")
	if err != nil {
		return err
	}
	_, err = (&backup.Source{Target: from}).Restore(ctx, plan, dir)
	return err
}
