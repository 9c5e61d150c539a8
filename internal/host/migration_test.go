package host

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/test/testserver"
)

const migrations = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"

func (r *running) migrate(t *testing.T, name, group, resource string) {
	t.Helper()
	r.create(t, migrations, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"resource":{"group":%q,"resource":%q}}}`, name, group, resource))
}

// awaitMigration waits until a migration has ended, and returns its conditions in the form
// TYPE=STATUS REASON MESSAGE.
func (r *running) awaitMigration(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	testserver.Eventually(t, time.Minute, func() error {
		var m migrationv1.StorageVersionMigration
		r.read(t, migrations+"/"+name, &m)
		found = nil
		for _, c := range m.Status.Conditions {
			found = append(found, strings.TrimSpace(fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message)))
		}
		if ended := slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type != "Running" }); !ended || m.Status.ResourceVersion == "" {
			return fmt.Errorf("the migration is %+v", m.Status)
		}
		return nil
	})
	return found
}

func succeeded() []string {
	return []string{"Running=False StorageVersionMigrationInProgress", "Succeeded=True StorageVersionMigrationSucceeded"}
}

// TestMigrationOfVersions checks that a migration rewrites custom resources in the storage version and updates
// the status of their definition, but does not write objects that are already in the storage version.
func TestMigrationOfVersions(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	const definitions, widgets = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.com/v1/namespaces/default/widgets"
	definition := func(old, storage bool) string {
		return fmt.Sprintf(`{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[
			{"name":"v1","served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object"}}},{"name":"v2","served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, old, storage)
	}
	version := func(name string) string {
		var w metav1.PartialObjectMetadata
		s.read(t, widgets+"/"+name, &w)
		return w.ResourceVersion
	}
	s.create(t, definitions, definition(true, false))
	s.create(t, widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"before"}}`)
	if got := exchange(t, s.admin, "PATCH", s.URL+definitions+"/widgets.example.com", definition(false, true), nil, "Content-Type", "application/merge-patch+json"); got != "200" {
		t.Fatal(got)
	}
	s.create(t, widgets, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"after"}}`)
	before, after := version("before"), version("after")
	s.migrate(t, "m", "example.com", "widgets")
	if got := s.awaitMigration(t, "m"); !slices.Equal(got, succeeded()) {
		t.Errorf("the migration ended with %q", got)
	}
	if version("before") == before || version("after") != after {
		t.Errorf("the resourceVersions changed from %s and %s to %s and %s", before, after, version("before"), version("after"))
	}
	var crd apiextensionsv1.CustomResourceDefinition
	s.read(t, definitions+"/widgets.example.com", &crd)
	if got := crd.Status.StoredVersions; !slices.Equal(got, []string{"v2"}) {
		t.Errorf("stored versions are %q", got)
	}

	s.create(t, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{"metadata":{"name":"p"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":["example.com"],"apiVersions":["*"],"resources":["widgets"],"operations":["UPDATE"]}]},"validations":[{"expression":"false","message":"not now"}]}}`)
	s.create(t, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
	s.migrate(t, "refused", "example.com", "widgets")
	if got := s.awaitMigration(t, "refused"); len(got) != 2 || got[0] != succeeded()[0] || !strings.HasPrefix(got[1], "Failed=True StorageVersionMigrationFailed migration encountered unhandled error: ") || !strings.Contains(got[1], "not now") {
		t.Errorf("the migration ended with %q", got)
	}
}

// TestMigrationOfKeys checks that all values are encrypted after a migration, and that the server continues an
// interrupted migration after a restart.
func TestMigrationOfKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := func(providers ...string) Config {
		c := Config{Storage: StorageConfig{DataDir: dir}}
		if len(providers) > 0 {
			c.Storage.Encryption.File = encryptionConfig(t, filepath.Join(t.TempDir(), "config"), "secrets", providers...)
		}
		return c
	}
	const secrets, many = "/api/v1/namespaces/default/secrets", 200 // more than a page
	s := start(t, config())
	for n := range many {
		s.create(t, secrets, fmt.Sprintf(`{"metadata":{"name":"s%d"}}`, n))
	}
	s.end(t)
	s = start(t, config(keyed("secretbox", "one"), "identity: {}"))
	s.migrate(t, "m", "", "secrets")
	s.end(t)
	s = start(t, config(keyed("secretbox", "one"), "identity: {}"))
	if got := s.awaitMigration(t, "m"); !slices.Equal(got, succeeded()) {
		t.Errorf("the migration ended with %q", got)
	}
	s.end(t)
	s = start(t, config(keyed("secretbox", "one"))) // a server that cannot read unencrypted values
	for n := range many {
		if code, body := s.do(t, "GET", fmt.Sprintf("%s/s%d", secrets, n), ""); code != 200 {
			t.Fatalf("secret %d: %d %s", n, code, body)
		}
	}
}
