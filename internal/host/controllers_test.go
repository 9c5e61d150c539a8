package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// withoutControllers disables the controllers that write objects without a request.
func withoutControllers(config Config) Config {
	config.ControlPlane.Controllers.Names = []string{"clusterrole-aggregation-controller"}
	return config
}

// TestWarnedOfDeletions checks that clients receive a warning if only a controller can complete a deletion, but
// no controller runs.
func TestWarnedOfDeletions(t *testing.T) {
	t.Parallel()
	s := start(t, withoutControllers(Config{}))
	warnings := func(path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "DELETE", s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := s.admin.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("DELETE %s: %s", path, resp.Status)
		}
		return strings.Join(resp.Header.Values("Warning"), "\n")
	}
	create := func(path, body string) {
		t.Helper()
		if code, answer := s.do(t, "POST", path, body); code != 201 {
			t.Fatalf("POST %s: %d %s", path, code, answer)
		}
	}
	make := func(n int) (namespace, object string) {
		t.Helper()
		namespace, object = fmt.Sprintf("n%d", n), fmt.Sprintf("m%d", n)
		create("/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
		create(configMaps, `{"metadata":{"name":"`+object+`"}}`)
		return "/api/v1/namespaces/" + namespace, configMaps + "/" + object
	}
	const (
		foreground = `{"propagationPolicy":"Foreground"}`
		orphan     = `{"propagationPolicy":"Orphan"}`
		nobody     = "no kube-controller-manager has its lease in kube-system"
	)
	namespace, object := make(1)
	tests := []struct{ path, body, want string }{
		{namespace, `{"dryRun":["All"]}`, ""},
		{namespace, "", `namespace \"n1\" stays Terminating until a controller empties it`},
		{namespace, "", `namespace \"n1\" stays Terminating`}, // a repeated deletion also receives the warning
		{object, foreground, `configmaps \"m1\" stays until the garbage collector removes its finalizer \"foregroundDeletion\"`},
	}
	for _, tt := range tests {
		if got := warnings(tt.path, tt.body); tt.want == "" && got != "" || !strings.Contains(got, tt.want) || tt.want != "" && !strings.Contains(got, nobody) {
			t.Errorf("DELETE %s %s warns %q, want %q", tt.path, tt.body, got, tt.want)
		}
	}
	_, object = make(2)
	if got := warnings(object, ""); got != "" {
		t.Errorf("a deletion that needs no controller warns %q", got)
	}
	create(configMaps, `{"metadata":{"name":"m2"}}`)
	if got := warnings(configMaps, orphan); !strings.Contains(got, nobody) {
		t.Errorf("the deletion of a collection warns %q", got)
	}

	lease := func(renewed time.Time) string {
		return fmt.Sprintf(`{"metadata":{"name":"kube-controller-manager"},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":%q}}`,
			renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	create(leases, lease(time.Now().Add(-time.Minute)))
	namespace, _ = make(3)
	if got := warnings(namespace, ""); !strings.Contains(got, nobody) {
		t.Errorf("with an expired lease, a deletion warns %q", got)
	}
	warnings(leases+"/kube-controller-manager", "")
	create(leases, lease(time.Now().Add(time.Hour)))
	namespace, object = make(4)
	if got := warnings(namespace, "") + warnings(object, foreground); got != "" {
		t.Errorf("with a controller manager, deletions warn %q", got)
	}
}

// TestDefaultAccounts checks that a pod that is created right after its namespace receives the default service
// account.
func TestDefaultAccounts(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	for n := range 20 {
		s.create(t, "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n%d"}}`, n))
		answer := s.create(t, fmt.Sprintf("/api/v1/namespaces/n%d/pods", n), `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
		if !strings.Contains(answer, `"serviceAccountName":"default"`) || !strings.Contains(answer, `"name":"kube-api-access-`) {
			t.Fatalf("the pod is %s", answer)
		}
	}
	root := s.awaitConfigMap(t, "n7", "kube-root-ca.crt", func(m *corev1.ConfigMap) bool { return strings.Contains(m.Data["ca.crt"], "BEGIN CERTIFICATE") })
	s.do(t, "DELETE", "/api/v1/namespaces/n7/configmaps/kube-root-ca.crt", "")
	s.do(t, "DELETE", "/api/v1/namespaces/n7/serviceaccounts/default", "")
	again := s.awaitConfigMap(t, "n7", "kube-root-ca.crt", func(m *corev1.ConfigMap) bool { return m.UID != root.UID })
	s.do(t, "PUT", "/api/v1/namespaces/n7/configmaps/kube-root-ca.crt", `{"metadata":{"name":"kube-root-ca.crt"},"data":{"ca.crt":"x"}}`)
	s.awaitConfigMap(t, "n7", "kube-root-ca.crt", func(m *corev1.ConfigMap) bool {
		return m.UID == again.UID && m.Data["ca.crt"] == root.Data["ca.crt"] && m.Annotations["kubernetes.io/description"] != ""
	})
	s.awaitAccount(t, "n7")
}

func (r *running) create(t *testing.T, path, body string) string {
	t.Helper()
	code, answer := r.do(t, "POST", path, body)
	if code != 201 {
		t.Fatalf("POST %s: %d %s", path, code, answer)
	}
	return answer
}

// awaitConfigMap waits until fits returns true for a ConfigMap, and returns it.
func (r *running) awaitConfigMap(t *testing.T, namespace, name string, fits func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	t.Helper()
	var m corev1.ConfigMap
	testserver.Eventually(t, 2*time.Minute, func() error {
		m = corev1.ConfigMap{}
		code, body := r.do(t, "GET", "/api/v1/namespaces/"+namespace+"/configmaps/"+name, "")
		if err := json.Unmarshal([]byte(body), &m); err != nil || code != 200 || !fits(&m) {
			return fmt.Errorf("get the ConfigMap %s/%s: %d %s %v", namespace, name, code, body, err)
		}
		return nil
	})
	return &m
}

func (r *running) awaitAccount(t *testing.T, namespace string) {
	t.Helper()
	r.awaitCode(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", 200)
}

func (r *running) awaitCode(t testing.TB, path string, want int) {
	t.Helper()
	testserver.Eventually(t, 2*time.Minute, func() error {
		if code, body := r.do(t, "GET", path, ""); code != want {
			return fmt.Errorf("GET %s: %d %s, want code %d", path, code, body, want)
		}
		return nil
	})
}

// TestNamespaceDeletion checks that the deletion of a namespace deletes all its objects, including custom
// resources. While objects remain, the namespace reports them and is not deleted.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	plainAndEncrypted(t, testNamespaceDeletion)
}

func testNamespaceDeletion(t *testing.T, config Config) {
	s := start(t, config)
	s.create(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"ws.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"ws","kind":"W"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	s.create(t, "/apis/example.com/v1/namespaces/a/ws", `{"apiVersion":"example.com/v1","kind":"W","metadata":{"name":"w"}}`)
	s.create(t, "/apis/example.com/v1/namespaces/a/ws", `{"apiVersion":"example.com/v1","kind":"W","metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
	s.create(t, "/api/v1/namespaces/a/pods", `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`)
	s.create(t, "/api/v1/namespaces/a/secrets", `{"metadata":{"name":"s"}}`)
	if code, body := s.do(t, "DELETE", "/api/v1/namespaces/a", ""); code != 200 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	s.awaitConditions(t, "a", "NamespaceContentRemaining=True Some resources are remaining: pods. has 1 resource instances",
		"NamespaceFinalizersRemaining=False All content-preserving finalizers finished")
	if code, _ := s.do(t, "GET", "/api/v1/namespaces/a/secrets/s", ""); code != 200 {
		t.Errorf("a Secret of a pod that is still running: %d", code)
	}
	s.do(t, "DELETE", "/api/v1/namespaces/a/pods/p", `{"gracePeriodSeconds":0}`)
	s.awaitConditions(t, "a", "NamespaceDeletionContentFailure=False All content successfully deleted, may be waiting on finalization",
		"NamespaceContentRemaining=True Some resources are remaining: ws.example.com has 1 resource instances",
		"NamespaceFinalizersRemaining=True Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
	for path, want := range map[string]int{"/api/v1/namespaces/a/secrets/s": 404, "/apis/example.com/v1/namespaces/a/ws/w": 404, "/apis/example.com/v1/namespaces/a/ws/held": 200} {
		if code, body := s.do(t, "GET", path, ""); code != want {
			t.Errorf("GET %s: %d %s, want %d", path, code, body, want)
		}
	}
	if code, body := s.do(t, "PUT", "/apis/example.com/v1/namespaces/a/ws/held", s.unheld(t, "/apis/example.com/v1/namespaces/a/ws/held")); code != 200 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	s.awaitCode(t, "/api/v1/namespaces/a", 404)
}

// plainAndEncrypted runs a test without and with encryption at rest. It is for tests of controllers that read
// the store directly.
func plainAndEncrypted(t *testing.T, test func(*testing.T, Config)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		test(t, Config{})
	})
	t.Run("encrypted", func(t *testing.T) {
		t.Parallel()
		test(t, Config{Storage: StorageConfig{Encryption: EncryptionConfig{File: encryptionConfig(t, filepath.Join(t.TempDir(), "config"), "'*.*'", keyed("secretbox", "one"))}}})
	})
}

// unheld returns an object without its finalizers.
func (r *running) unheld(t *testing.T, path string) string {
	t.Helper()
	var obj map[string]any
	r.read(t, path, &obj)
	delete(obj["metadata"].(map[string]any), "finalizers")
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func (r *running) awaitConditions(t *testing.T, namespace string, want ...string) {
	t.Helper()
	testserver.Eventually(t, 2*time.Minute, func() error {
		var ns corev1.Namespace
		r.read(t, "/api/v1/namespaces/"+namespace, &ns)
		var got []string
		for _, c := range ns.Status.Conditions {
			got = append(got, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Message))
		}
		all := strings.Join(got, "\n")
		for _, w := range want {
			if !strings.Contains(all, w) {
				return fmt.Errorf("want %s, got\n%s", w, all)
			}
		}
		return nil
	})
}

// TestControllersOfSeveralServers checks that only one of three servers runs the controllers, and that another
// server takes over immediately when this server stops.
func TestControllersOfSeveralServers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	servers := []*running{start(t, etcdConfig(c)), start(t, etcdConfig(c)), start(t, etcdConfig(c))}
	holders := map[string]bool{}
	for n, s := range servers {
		namespace := fmt.Sprintf("n%d", n)
		s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
		s.awaitAccount(t, namespace)
		holders[s.holder(t)] = true
		if n < len(servers)-1 {
			s.end(t)
		}
	}
	if len(holders) == 0 || holders[""] {
		t.Errorf("the lease was held by %v", holders)
	}
}

// holder returns the holder of the controllers' lease.
func (r *running) holder(t *testing.T) string {
	t.Helper()
	var lease coordinationv1.Lease
	testserver.Eventually(t, 2*time.Minute, func() error {
		lease = coordinationv1.Lease{}
		r.read(t, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mainstay-controllers", &lease)
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return errors.New("no server holds the lease")
		}
		return nil
	})
	return *lease.Spec.HolderIdentity
}

// TestActionsBesideManager checks that the controllers do not repeat the work of a kube-controller-manager,
// neither while it holds its lease nor after the lease is deleted.
func TestActionsBesideManager(t *testing.T) {
	t.Parallel()
	log := &testserver.Buffer{}
	s := start(t, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.awaitAccount(t, "default")
	const leases, many = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", 20
	s.create(t, leases, fmt.Sprintf(`{"metadata":{"name":"kube-controller-manager"},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":%q}}`,
		time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")))
	testserver.Eventually(t, time.Minute, func() error {
		if countIn(log, "a kube-controller-manager runs") == 0 {
			return errors.New("it is not seen")
		}
		return nil
	})
	watch, err := s.admin.Get(s.URL + "/api/v1/serviceaccounts?watch=1&fieldSelector=metadata.name%3Ddefault&timeoutSeconds=300")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	for n := range many { // objects as the kube-controller-manager creates them
		namespace := fmt.Sprintf("theirs%d", n)
		s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"`+namespace+`"}}`)
		s.create(t, "/api/v1/namespaces/"+namespace+"/serviceaccounts?fieldManager=manager", `{"metadata":{"name":"default","labels":{"by":"manager"}}}`)
	}
	s.do(t, "DELETE", leases+"/kube-controller-manager", "")
	s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"ours"}}`)
	s.awaitConfigMap(t, "theirs0", "kube-root-ca.crt", func(*corev1.ConfigMap) bool { return true }) // the controllers have processed all events
	s.awaitAccount(t, "ours")
	actions, events := map[string]int{}, json.NewDecoder(watch.Body)
	for actions["ours"] == 0 {
		var event struct {
			Type   string
			Object corev1.ServiceAccount
		}
		if err := events.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if actions[event.Object.Namespace]++; strings.HasPrefix(event.Object.Namespace, "theirs") && (event.Type != "ADDED" || event.Object.Labels["by"] != "manager") {
			t.Errorf("event %s of an account that the kube-controller-manager created: %+v", event.Type, event.Object)
		}
	}
	for namespace, n := range actions {
		if n != 1 {
			t.Errorf("%d actions in %s", n, namespace)
		}
	}
}

// TestControllersBesideManager checks that once the lease of a kube-controller-manager is deleted, the
// controllers process changes from before and after the deletion.
func TestControllersBesideManager(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	s.create(t, leases, fmt.Sprintf(`{"metadata":{"name":"kube-controller-manager"},"spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":%q}}`,
		time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")))
	s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"theirs"}}`)
	s.do(t, "DELETE", "/api/v1/namespaces/theirs", "")
	s.do(t, "DELETE", leases+"/kube-controller-manager", "")
	s.awaitCode(t, "/api/v1/namespaces/theirs", 404) // the controllers could not process this deletion while the lease existed
	s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"ours"}}`)
	s.awaitAccount(t, "ours")
}

// TestStorageProtection checks that claims, volumes and classes are deleted only when they are no longer used.
func TestStorageProtection(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const claims, pods = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/namespaces/default/pods"
	const classes, volumes = "/apis/storage.k8s.io/v1/volumeattributesclasses", "/api/v1/persistentvolumes"
	s.create(t, classes, `{"metadata":{"name":"fast"},"driverName":"d","parameters":{"a":"b"}}`)
	s.create(t, claims, `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"volumeAttributesClassName":"fast","resources":{"requests":{"storage":"1Gi"}}}}`)
	s.create(t, volumes, `{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}`)
	s.create(t, pods, `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]}}`)
	for _, path := range []string{claims + "/c", classes + "/fast", volumes + "/v"} {
		if code, body := s.do(t, "DELETE", path, ""); code != 200 {
			t.Fatalf("DELETE %s: %d %s", path, code, body)
		}
	}
	s.awaitCode(t, volumes+"/v", 404)
	for _, path := range []string{claims + "/c", classes + "/fast"} {
		if code, body := s.do(t, "GET", path, ""); code != 200 {
			t.Errorf("GET %s while it is used: %d %s", path, code, body)
		}
	}
	s.do(t, "DELETE", pods+"/p", `{"gracePeriodSeconds":0}`)
	s.awaitCode(t, claims+"/c", 404)
	s.awaitCode(t, classes+"/fast", 404)
}

// TestTTLAfterFinished checks that a finished job is deleted after its TTL, and that jobs with a longer TTL or
// without a TTL remain.
func TestTTLAfterFinished(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	for name, ttl := range map[string]string{"soon": `"ttlSecondsAfterFinished":1,`, "later": `"ttlSecondsAfterFinished":3600,`, "never": ""} {
		s.create(t, jobs, `{"metadata":{"name":"`+name+`"},"spec":{`+ttl+`"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
		at := time.Now().UTC().Format(time.RFC3339)
		var job map[string]any
		s.read(t, jobs+"/"+name, &job)
		condition := func(kind string) map[string]any {
			return map[string]any{"type": kind, "status": "True", "lastTransitionTime": at, "lastProbeTime": at, "reason": "r"}
		}
		job["status"] = map[string]any{"startTime": at, "completionTime": at, "succeeded": 1, "conditions": []any{condition("SuccessCriteriaMet"), condition("Complete")}}
		body, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		if code, answer := s.do(t, "PUT", jobs+"/"+name+"/status", string(body)); code != 200 {
			t.Fatalf("unexpected response: %d %s", code, answer)
		}
	}
	s.awaitCode(t, jobs+"/soon", 404)
	for _, name := range []string{"later", "never"} {
		if code, body := s.do(t, "GET", jobs+"/"+name, ""); code != 200 {
			t.Errorf("get the job %s: %d %s", name, code, body)
		}
	}
}

// TestNamespaceOfUnreachableServers checks that a deleted namespace remains while an aggregated server is
// unreachable, and disappears after the registration of this server is deleted.
func TestNamespaceOfUnreachableServers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const services = "/apis/apiregistration.k8s.io/v1/apiservices"
	s.create(t, services, `{"metadata":{"name":"v1.gone.example.com"},"spec":{"group":"gone.example.com","version":"v1","groupPriorityMinimum":10,"versionPriority":10,
		"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"none"}}}`)
	s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	s.do(t, "DELETE", "/api/v1/namespaces/a", "")
	s.awaitConditions(t, "a", "NamespaceDeletionDiscoveryFailure=True Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "+
		"gone.example.com/v1: stale GroupVersion discovery: gone.example.com/v1")
	s.do(t, "DELETE", services+"/v1.gone.example.com", "")
	s.awaitCode(t, "/api/v1/namespaces/a", 404)
}

// TestCollection checks, for each propagation policy, the watch events that the deletion of an owner causes.
func TestCollection(t *testing.T) {
	t.Parallel()
	plainAndEncrypted(t, testCollection)
}

func testCollection(t *testing.T, config Config) {
	s := start(t, config)
	for policy, want := range map[string]map[string]string{ // the events of each object, in order
		"Background": {"owner": "ADDED, DELETED", "child0": "ADDED owned, DELETED owned", "child1": "ADDED owned, DELETED owned"},
		"Foreground": {"owner": "ADDED, MODIFIED foregroundDeletion, DELETED foregroundDeletion", "child0": "ADDED owned, DELETED owned", "child1": "ADDED owned, DELETED owned"},
		"Orphan":     {"owner": "ADDED, MODIFIED orphan, DELETED orphan", "child0": "ADDED owned, MODIFIED", "child1": "ADDED owned, MODIFIED"},
	} {
		namespace := "/api/v1/namespaces/" + strings.ToLower(policy)
		s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"`+strings.ToLower(policy)+`"}}`)
		watch, err := s.admin.Get(s.URL + namespace + "/configmaps?watch=1&timeoutSeconds=60")
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Body.Close()
		var owner corev1.ConfigMap
		if err := json.Unmarshal([]byte(s.create(t, namespace+"/configmaps", `{"metadata":{"name":"owner"}}`)), &owner); err != nil {
			t.Fatal(err)
		}
		for n, blocks := range []bool{true, false} {
			s.create(t, namespace+"/configmaps", fmt.Sprintf(`{"metadata":{"name":"child%d","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q,"blockOwnerDeletion":%t}]}}`, n, owner.UID, blocks))
		}
		if code, body := s.do(t, "DELETE", namespace+"/configmaps/owner", `{"propagationPolicy":"`+policy+`"}`); code != 200 {
			t.Fatalf("unexpected response: %d %s", code, body)
		}
		got, events := map[string]string{}, json.NewDecoder(watch.Body)
		for !maps.Equal(got, want) {
			var event struct {
				Type   string
				Object corev1.ConfigMap
			}
			if err := events.Decode(&event); err != nil {
				t.Fatalf("%s: %v; got %v, want %v", policy, err, got, want)
			}
			if _, ours := want[event.Object.Name]; ours {
				got[event.Object.Name] = strings.TrimPrefix(got[event.Object.Name]+", "+describe(event.Type, &event.Object), ", ")
			}
		}
	}
	// Objects with absent owners are deleted. One owner has the name of an existing object but another UID; the
	// other owner never existed.
	s.create(t, configMaps, `{"metadata":{"name":"owner"}}`)
	for n, name := range []string{"owner", "never"} {
		path := fmt.Sprintf("%s/lost%d", configMaps, n)
		s.create(t, configMaps, fmt.Sprintf(`{"metadata":{"name":"lost%d","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":"11111111-2222-3333-4444-555555555555"}]}}`, n, name))
		s.awaitCode(t, path, 404)
	}
}

// TestOwnersOfOtherNamespaces checks that an event reports an owner in another namespace.
func TestOwnersOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	s.create(t, "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
	var owner corev1.ConfigMap
	if err := json.Unmarshal([]byte(s.create(t, "/api/v1/namespaces/a/configmaps", `{"metadata":{"name":"owner"}}`)), &owner); err != nil {
		t.Fatal(err)
	}
	owned := fmt.Sprintf(`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]`, owner.UID)
	s.create(t, configMaps, `{"metadata":{"name":"m",`+owned+`}}`)
	s.create(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"of:nobody",`+owned+`}}`)
	wanted := map[string]string{
		"ConfigMap default/m":    fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: %s] does not exist in namespace "default"`, owner.UID),
		"ClusterRole /of:nobody": fmt.Sprintf(`ownerRef [v1/ConfigMap, namespace: , name: owner, uid: %s] does not exist in namespace ""`, owner.UID),
	}
	testserver.Eventually(t, time.Minute, func() error {
		var events corev1.EventList
		s.read(t, "/api/v1/namespaces/default/events?fieldSelector=reason=OwnerRefInvalidNamespace", &events)
		got := map[string]string{}
		for _, e := range events.Items {
			got[e.InvolvedObject.Kind+" "+e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] = e.Message
			if e.Type != "Warning" || e.Source.Component != "garbage-collector-controller" || e.Count < 1 {
				t.Errorf("unexpected event %+v", e)
			}
		}
		if !maps.Equal(got, wanted) {
			return fmt.Errorf("the events are %v, want %v", got, wanted)
		}
		return nil
	})
	s.awaitCode(t, configMaps+"/m", 404)
	if code, body := s.do(t, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/of:nobody", ""); code != 200 {
		t.Errorf("a cluster-scoped object that names an owner in a namespace: %d %s", code, body)
	}
}

// describe formats an event and the relevant fields of its object.
func describe(event string, m *corev1.ConfigMap) string {
	if len(m.OwnerReferences) > 0 {
		event += " owned"
	}
	return strings.Join(append([]string{event}, m.Finalizers...), " ")
}
