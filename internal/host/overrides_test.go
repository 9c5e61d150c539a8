package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

func TestParseOverrides(t *testing.T) {
	t.Parallel()
	resource := func(group, name string) schema.GroupResource {
		return schema.GroupResource{Group: group, Resource: name}
	}
	drivers := (&StorageConfig{}).drivers(feature.Defaults())
	got, err := parseOverrides([]string{"/events#http://a:1;http://b:1", "/pods#http://c:1", "apps/deployments#http://a:1;http://b:1", "/pods#http://d:1"}, drivers)
	if err != nil {
		t.Fatal(err)
	}
	want := []override{
		{[]string{"http://a:1", "http://b:1"}, []schema.GroupResource{resource("", "events"), resource("apps", "deployments")}},
		{[]string{"http://d:1"}, []schema.GroupResource{resource("", "pods")}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(override{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for flag, problem := range map[string]string{
		"/events":                  errOverrideFormat.Error(),
		"events#http://a:1":        errOverrideFormat.Error(),
		"a/b/c#http://a:1":         errOverrideFormat.Error(),
		"/events#http://a:1#x":     errOverrideFormat.Error(),
		"/events#":                 `"" is not a URL`,
		"/events#a:1":              `there is no storage backend with the scheme "a"`,
		"/events#http://":          `etcd server "http://" is not a URL`,
		"/events#memory:":          `"memory:" selects the store of --data-dir`,
		"/services#http://a:1":     "services cannot have a separate store",
		"/resourcequotas#http://a": "resourcequotas cannot have a separate store",
	} {
		if _, err := parseOverrides([]string{flag}, drivers); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: error %v, want %q", flag, err, problem)
		}
	}
}

// overridden is a server that stores ConfigMaps in a separate etcd cluster.
type overridden struct {
	*running
	t           *testing.T
	main, other *etcdtest.Cluster
	config      Config
}

func startOverridden(t *testing.T) *overridden {
	a := &overridden{t: t, main: etcdtest.Start(t, etcdtest.Options{}), other: etcdtest.Start(t, etcdtest.Options{})}
	servers := strings.Join(a.other.URLs(), ";")
	a.config = etcdConfig(a.main)
	a.config.Storage.Etcd.Overrides = []string{"/configmaps#" + servers, "/nonsense#" + servers, "apiextensions.k8s.io/customresourcedefinitions#" + servers}
	a.running = start(t, a.config)
	return a
}

func (a *overridden) must(code int, method, path, body string) string {
	a.t.Helper()
	got, answer := a.do(a.t, method, path, body)
	if got != code {
		a.t.Fatalf("%s %s: %d %s, want code %d", method, path, got, answer, code)
	}
	return answer
}

// keys returns the number of storage keys below a path in an etcd cluster.
func (a *overridden) keys(c *etcdtest.Cluster, path string) int {
	a.t.Helper()
	store, err := etcd.Open(etcd.Config{Endpoints: c.URLs()})
	if err != nil {
		a.t.Fatal(err)
	}
	defer store.Close()
	prefix := "/registry/" + path + "/"
	found, err := store.Range(a.t.Context(), kv.RangeRequest{Start: prefix, End: kv.PrefixEnd(prefix)})
	if err != nil {
		a.t.Fatal(err)
	}
	return len(found.Entries)
}

// TestEtcdServersOverrides checks that a resource can be stored in a separate etcd cluster, and that all parts
// of the server support such a resource.
func TestEtcdServersOverrides(t *testing.T) {
	t.Parallel()
	a := startOverridden(t)
	t.Run("locations of objects", a.testLocations)
	t.Run("a watch", a.testWatch)
	t.Run("a quota", a.testQuota)
	t.Run("owners", a.testOwners)
	t.Run("deletion of a namespace", a.testNamespace)
	t.Run("metrics", a.testMetrics)
	t.Run("health without the separate etcd", a.testOutage)
}

func (a *overridden) testLocations(t *testing.T) {
	a.must(201, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	a.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"a"}}`)
	if n := a.keys(a.main, "configmaps"); n != 0 {
		t.Errorf("the main etcd contains %d ConfigMaps", n)
	}
	if a.keys(a.other, "configmaps") == 0 || a.keys(a.other, "secrets") != 0 || a.keys(a.other, "apiextensions.k8s.io") != 0 {
		t.Error("the separate etcd cluster contains no ConfigMaps, or contains other objects")
	}
	if list := a.must(200, "GET", configMaps, ""); !strings.Contains(list, `"name":"a"`) {
		t.Errorf("list: %s", list)
	}
}

func (a *overridden) testWatch(t *testing.T) {
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(a.must(200, "GET", configMaps, "")), &list); err != nil {
		t.Fatal(err)
	}
	watch, err := a.admin.Get(a.URL + configMaps + "?watch=true&timeoutSeconds=60&fieldSelector=metadata.name%3Dwatched&resourceVersion=" + list.Metadata.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	a.must(201, "POST", configMaps, `{"metadata":{"name":"watched"}}`)
	var event struct {
		Type   string
		Object struct{ Metadata struct{ Name string } }
	}
	if err := json.NewDecoder(watch.Body).Decode(&event); err != nil || event.Type != "ADDED" || event.Object.Metadata.Name != "watched" {
		t.Errorf("event %+v, error %v; want ADDED of watched", event, err)
	}
}

func (a *overridden) testQuota(t *testing.T) {
	a.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"limited"}}`)
	a.awaitCode(t, "/api/v1/namespaces/limited/configmaps/kube-root-ca.crt", 200)
	const quotas = "/api/v1/namespaces/limited/resourcequotas"
	a.must(201, "POST", quotas, `{"metadata":{"name":"q"},"spec":{"hard":{"count/configmaps":"2"}}}`)
	const here = "/api/v1/namespaces/limited/configmaps"
	// The quota and the objects are written separately. If the controller counts the objects between the two
	// writes, one object more or less can be admitted.
	created := 0
	testserver.Eventually(t, 2*time.Minute, func() error {
		code, body := a.do(t, "POST", here, fmt.Sprintf(`{"metadata":{"name":"c-%d"}}`, created))
		if code == 201 {
			created++
		}
		if code != 403 {
			return fmt.Errorf("create until the quota is exceeded: %d %s", code, body)
		}
		return nil
	})
	if created == 0 {
		t.Error("all creations failed")
	}
	a.must(200, "DELETE", here, "")
	testserver.Eventually(t, 2*time.Minute, func() error {
		if code, body := a.do(t, "POST", here, `{"metadata":{"name":"again"}}`); code != 201 {
			return fmt.Errorf("create after the deletion: %d %s", code, body)
		}
		return nil
	})
}

func (a *overridden) testOwners(t *testing.T) {
	const secrets = "/api/v1/namespaces/default/secrets"
	var owner struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal([]byte(a.must(201, "POST", secrets, `{"metadata":{"name":"owner"}}`)), &owner); err != nil {
		t.Fatal(err)
	}
	a.must(201, "POST", configMaps, `{"metadata":{"name":"owned","ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"owner","uid":"`+owner.Metadata.UID+`"}]}}`)
	a.must(200, "DELETE", secrets+"/owner", "")
	a.awaitCode(t, configMaps+"/owned", http.StatusNotFound)
}

func (a *overridden) testNamespace(t *testing.T) {
	const namespace = "/api/v1/namespaces/limited"
	a.must(200, "DELETE", namespace, "")
	a.awaitCode(t, namespace, http.StatusNotFound)
	if n := a.keys(a.other, "configmaps/limited"); n != 0 {
		t.Errorf("%d ConfigMaps of the namespace remain", n)
	}
}

func (a *overridden) testMetrics(t *testing.T) {
	metrics := a.must(200, "GET", "/metrics", "")
	for _, line := range []string{
		`apiserver_storage_size_bytes{storage_cluster_id="etcd-0"}`, `apiserver_storage_size_bytes{storage_cluster_id="etcd-1"}`,
		`mainstay_kv_watches{storage_cluster_id="etcd-1"} `,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no metric %s", line)
		}
	}
}

func (a *overridden) testOutage(t *testing.T) {
	checks := a.must(200, "GET", "/readyz?verbose", "")
	if !strings.Contains(checks, "[+]etcd ok\n[+]etcd-readiness ok\n[+]etcd-override-0 ok\n[+]etcd-override-readiness-0 ok\n") {
		t.Errorf("checks: %s", checks)
	}
	a.other.Members[0].Stop()
	if code, body := a.do(t, "GET", configMaps, ""); code != 503 && code != 500 || !strings.Contains(body, `"kind":"Status"`) {
		t.Errorf("list ConfigMaps while their etcd cluster is stopped: %d %s", code, body)
	}
	a.must(201, "POST", "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"meanwhile"}}`)
	if code, body := a.do(t, "GET", "/readyz?verbose", ""); code != 500 || !strings.Contains(body, "[+]etcd-readiness ok\n[-]etcd-override-0 failed") {
		t.Errorf("readyz: %d %s", code, body)
	}
	a.must(200, "GET", "/readyz?exclude=etcd&exclude=etcd-readiness", "")
	a.other.Members[0].Restart()
	a.awaitCode(t, configMaps+"/a", 200)
	a.awaitCode(t, "/readyz", 200)
}
