package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/internal/telemetry"
	"mainstay.dev/mainstay/test/testserver"
)

const storageVersions = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"

// reportsVersions returns a config in which the server reports storage versions.
func reportsVersions(config Config) Config {
	config.ControlPlane.Features.Gates = feature.Set{feature.StorageVersionAPI: true}
	config.ControlPlane.Features.RuntimeConfig = map[string]string{"internal.apiserver.k8s.io/v1alpha1": "true"}
	return config
}

// formatVersions formats a StorageVersion. The result contains the common version, the version of each of the
// given hosts, and the condition. If the StorageVersion cannot be read, the result is the status code.
func (r *running) formatVersions(t testing.TB, name string, hosts ...string) string {
	t.Helper()
	code, body := r.do(t, "GET", storageVersions+"/"+name, "")
	if code != 200 {
		return fmt.Sprint(code)
	}
	var v internalv1alpha1.StorageVersion
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	var says []string
	for _, s := range v.Status.StorageVersions {
		host := s.APIServerID
		if at := slices.IndexFunc(hosts, func(h string) bool { return telemetry.ServerID(h) == host }); at >= 0 {
			host = hosts[at]
		}
		says = append(says, host+"="+s.EncodingVersion)
	}
	slices.Sort(says) // the entries can have any order
	for _, c := range v.Status.Conditions {
		says = append(says, c.Reason+"="+string(c.Status))
	}
	common := "none"
	if v.Status.CommonEncodingVersion != nil {
		common = *v.Status.CommonEncodingVersion
	}
	return common + " " + strings.Join(says, " ")
}

func (r *running) awaitSays(t testing.TB, name, want string, hosts ...string) {
	t.Helper()
	testserver.Eventually(t, time.Minute, func() error {
		if got := r.formatVersions(t, name, hosts...); got != want {
			return fmt.Errorf("the storage version %s is %q, want %q", name, got, want)
		}
		return nil
	})
}

const agreed = " CommonEncodingVersionSet=True"

// TestStorageVersions checks that two servers publish the storage versions of built-in and custom
// resources, and that the entries of a removed server are deleted.
func TestStorageVersions(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	at := func(host string) Config {
		config := reportsVersions(etcdConfig(c))
		config.Listen.Hostname = host
		return config
	}
	one := start(t, at("one"))
	if got := one.formatVersions(t, "apps.deployments", "one"); got != "apps/v1 one=apps/v1"+agreed {
		t.Errorf("a ready server has reported %q", got)
	}
	two := start(t, at("two"))
	hosts := []string{"one", "two"}
	for name, want := range map[string]string{
		"core.pods":                          "v1 one=v1 two=v1" + agreed,
		"core.events":                        "v1 one=v1 two=v1" + agreed,
		"events.k8s.io.events":               "404", // the same objects as core.events
		"authentication.k8s.io.tokenreviews": "404", // token reviews are not stored
	} {
		if got := two.formatVersions(t, name, hosts...); got != want {
			t.Errorf("the storage version %s is %q, want %q", name, got, want)
		}
	}
	var events internalv1alpha1.StorageVersion
	one.read(t, storageVersions+"/core.events", &events)
	want := internalv1alpha1.ServerStorageVersion{
		APIServerID: telemetry.ServerID("one"), EncodingVersion: "v1", DecodableVersions: []string{"v1", "events.k8s.io/v1"}, ServedVersions: []string{"v1"},
	}
	if diff := cmp.Diff(want, events.Status.StorageVersions[0]); diff != "" {
		t.Errorf("storage version of events (-want +got):\n%s", diff)
	}
	one.testCustomVersions(t, hosts)
	stranger := `{"status":{"commonEncodingVersion":"v1","storageVersions":[{"apiServerID":"stranger","encodingVersion":"v1","decodableVersions":["v1"]}]}}`
	one.must(t, "POST", storageVersions, `{"metadata":{"name":"example.com.nothings"}}`)
	one.patch(t, storageVersions+"/example.com.nothings/status", stranger)
	one.awaitSays(t, "example.com.nothings", "404")
	two.end(t)
	one.awaitSays(t, "core.pods", "v1 one=v1"+agreed, hosts...)
}

func (r *running) patch(t testing.TB, path, body string) {
	t.Helper()
	if code, answer := r.send(t, "PATCH", path, body, "Content-Type", "application/merge-patch+json"); code != 200 {
		t.Fatalf("patch %s: %d %s", path, code, answer)
	}
}

// testCustomVersions checks that the StorageVersion of a custom resource is updated when its definition
// changes.
func (r *running) testCustomVersions(t *testing.T, hosts []string) {
	const name, definitions = "example.com.widgets", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	definition := func(stored, other string) string {
		return fmt.Sprintf(`{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[
{"name":%q,"served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":%q,"served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, stored, other)
	}
	r.must(t, "POST", definitions, definition("v1", "v2"))
	r.awaitSays(t, name, "example.com/v1 one=example.com/v1 two=example.com/v1"+agreed, hosts...)
	r.patch(t, definitions+"/widgets.example.com", definition("v2", "v1"))
	r.awaitSays(t, name, "example.com/v2 one=example.com/v2 two=example.com/v2"+agreed, hosts...)
	r.must(t, "DELETE", definitions+"/widgets.example.com", "")
	r.awaitSays(t, name, "404")
}

// TestStorageVersionsPending checks that writes of a resource are rejected until its storage version is
// published, and that reads and writes of other resources succeed.
func TestStorageVersionsPending(t *testing.T) {
	t.Parallel()
	const policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	dataDir := t.TempDir()
	before := start(t, Config{Storage: StorageConfig{DataDir: dataDir}})
	if code, _ := before.do(t, "GET", storageVersions, ""); code != 404 {
		t.Errorf("with the feature disabled: %d", code)
	}
	before.must(t, "POST", policies, `{"metadata":{"name":"a"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["internal.apiserver.k8s.io"],"apiVersions":["*"],"operations":["CREATE"],"resources":["storageversions"]}]},
"validations":[{"expression":"object.metadata.name != 'core.configmaps'","message":"not this one"}]}}`)
	before.must(t, "POST", strings.Replace(policies, "policies", "policybindings", 1), `{"metadata":{"name":"a"},"spec":{"policyName":"a","validationActions":["Deny"]}}`)
	before.end(t)
	s := start(t, reportsVersions(Config{Storage: StorageConfig{DataDir: dataDir}}))
	code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"a"}}`)
	const refusal = "wait for storage version registration to complete for resource: configmaps, last seen error: create the storage version core.configmaps: "
	if code != 503 || !strings.Contains(body, refusal) || !strings.Contains(body, "not this one") {
		t.Errorf("a write before the report: %d %s", code, body)
	}
	if _, ready := fetch(t, s.admin, s.URL+"/readyz?verbose"); !strings.Contains(ready, "[-]poststarthook/built-in-resources-storage-version-updater failed") {
		t.Errorf("readyz: %s", ready)
	}
	if code, body := s.do(t, "GET", configMaps, ""); code != 200 {
		t.Errorf("a read: %d %s", code, body)
	}
	for path, object := range map[string]string{
		"/api/v1/namespaces/default/secrets": `{"metadata":{"name":"a"}}`, systemLeases: `{"metadata":{"name":"a"}}`, storageVersions: `{"metadata":{"name":"tests.things"}}`,
	} {
		s.must(t, "POST", path, object)
	}
	s.must(t, "DELETE", policies+"/a", "")
	testserver.Eventually(t, time.Minute, func() error {
		if code, body := s.do(t, "POST", configMaps+"?dryRun=All", `{"metadata":{"name":"a"}}`); code != 201 {
			return fmt.Errorf("a write after the report: %d %s", code, body)
		}
		return nil
	})
	s.awaitCode(t, "/readyz", 200)
}
