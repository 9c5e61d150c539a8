package host

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/storage/encryption/kmstest"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(kmstest.Main(m)) }

// encryptionConfig writes an encryption configuration to file and returns the file name. resources and
// providers are YAML.
func encryptionConfig(t testing.TB, file, resources string, providers ...string) string {
	t.Helper()
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [" + resources + "]\n  providers:\n"
	for _, provider := range providers {
		text += "  - " + provider + "\n"
	}
	if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".next", file); err != nil {
		t.Fatal(err)
	}
	return file
}

// keyed returns the configuration of a provider with one key, in YAML. The secret depends on the first letter
// of the key name.
func keyed(kind, name string) string {
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32))
	return fmt.Sprintf("%s: {keys: [{name: %s, secret: %s}]}", kind, name, secret)
}

// marker is the text that the tests search for in files. It is not compressible.
const marker = "x9Q2vLr7Zt0KmW4s"

const widgetDefinition = `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// marked contains objects of several resources that contain the marker.
var marked = []struct{ collection, name, body string }{
	{"/api/v1/namespaces/default/secrets", "s", `{"metadata":{"name":"s"},"stringData":{"password":"` + marker + `"}}`},
	{"/api/v1/namespaces/default/configmaps", "c", `{"metadata":{"name":"c"},"data":{"password":"` + marker + `"}}`},
	{"/api/v1/namespaces/default/events", "e", `{"metadata":{"name":"e","namespace":"default"},"involvedObject":{"namespace":"default"},"message":"` + marker + `"}`},
	{"/apis/coordination.k8s.io/v1/namespaces/default/leases", "l", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"` + marker + `"}}`},
	{"/apis/example.com/v1/namespaces/default/widgets", "w", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"password":"` + marker + `"}`},
}

func createMarked(t *testing.T, r *running) {
	t.Helper()
	if code, body := r.do(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgetDefinition); code != 201 {
		t.Fatalf("create the definition: %d %s", code, body)
	}
	for _, m := range marked {
		testserver.Eventually(t, 2*time.Minute, func() error { // a definition is served once its names are accepted
			if code, body := r.do(t, "POST", m.collection, m.body); code != 201 {
				return fmt.Errorf("create %s: %d %s", m.name, code, body)
			}
			return nil
		})
	}
}

// readMarked reads all objects, individually and in lists.
func readMarked(t *testing.T, r *running) {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(marker))
	for _, m := range marked {
		for _, path := range []string{m.collection + "/" + m.name, m.collection, m.collection + "?resourceVersion=0&limit=10"} {
			if code, body := r.do(t, "GET", path, ""); code != 200 || !strings.Contains(body, marker) && !strings.Contains(body, encoded) {
				t.Errorf("%s: %d %.300s", path, code, body)
			}
		}
	}
}

// holders returns the files below a directory that contain the marker.
func holders(t *testing.T, folder string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(marker)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// checkStored checks that all values in a store are encrypted, except values that kube-apiserver never
// encrypts.
func checkStored(t *testing.T, backend kv.Backend, prefix string) {
	t.Helper()
	all, err := backend.Range(t.Context(), kv.RangeRequest{Start: "/registry/", End: kv.PrefixEnd("/registry/")})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Entries) < 150 {
		t.Errorf("the store contains only %d objects", len(all.Entries))
	}
	for _, entry := range all.Entries {
		plain := strings.HasPrefix(entry.Key, "/registry/masterleases/") || strings.HasPrefix(entry.Key, "/registry/ranges/")
		if bytes.HasPrefix(entry.Value, []byte(prefix)) == plain {
			t.Errorf("%s is stored as %.30q", entry.Key, entry.Value)
		}
	}
}

// TestNothingPlainOnDisk checks that if all resources are encrypted, all values are encrypted and no file of
// the data directory contains plain text.
func TestNothingPlainOnDisk(t *testing.T) {
	t.Parallel()
	plain := start(t, Config{Storage: StorageConfig{DataDir: t.TempDir()}})
	createMarked(t, plain)
	plain.end(t)
	if len(holders(t, filepath.Dir(plain.Kubeconfig))) == 0 {
		t.Fatal("found no plain text without encryption; the test is not valid")
	}

	dir := t.TempDir()
	config := Config{Storage: StorageConfig{DataDir: dir, Encryption: EncryptionConfig{File: encryptionConfig(t, filepath.Join(t.TempDir(), "config"), "'*.*'", keyed("secretbox", "k"))}}}
	r := start(t, config)
	createMarked(t, r)
	readMarked(t, r)
	if found := holders(t, dir); len(found) > 0 { // checks the log of the store while the server runs
		t.Errorf("plain text in %q", found)
	}
	r.end(t)
	store, err := embedded.Open(embedded.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	checkStored(t, store, "k8s:enc:secretbox:v1:k:")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	r = start(t, config)
	readMarked(t, r)
	r.end(t)
	if found := holders(t, dir); len(found) > 0 {
		t.Errorf("plain text in %q", found)
	}
}

// TestEncryptedInEtcd checks with etcd and a KMS plugin that all values are encrypted and that two servers can
// read them.
func TestEncryptedInEtcd(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{TLS: true})
	plugin := kmstest.New(t)
	config := etcdConfig(c)
	config.Storage.Encryption.File = encryptionConfig(t, filepath.Join(t.TempDir(), "config"), "'*.*'",
		fmt.Sprintf("kms: {apiVersion: v2, name: k, endpoint: '%s', timeout: 20s}", plugin.Endpoint()))
	r := start(t, config)
	createMarked(t, r)
	two := start(t, config) // reads the values of the first server, including values in watches
	readMarked(t, two)
	if code, body := r.do(t, "PUT", marked[0].collection+"/s", strings.Replace(marked[0].body, `{"m`, `{"type":"Opaque","m`, 1)); code != 200 {
		t.Errorf("update: %d %s", code, body)
	}
	readMarked(t, two)
	store, err := etcd.Open(etcd.Config{Endpoints: c.URLs(), CAFile: c.Files.CA, CertFile: c.Files.ClientCert, KeyFile: c.Files.ClientKey})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	checkStored(t, store, "k8s:enc:kms:v2:k:")
	if code, body := r.do(t, "GET", "/readyz?verbose", ""); code != 200 || !strings.Contains(body, "[+]etcd-readiness ok\n[+]kms-providers ok\n") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, body := r.do(t, "GET", "/livez?verbose", ""); code != 200 || strings.Contains(body, "kms-providers") {
		t.Errorf("livez: %d %s", code, body)
	}
	if code, body := r.do(t, "GET", "/healthz/kms-providers", ""); code != 200 {
		t.Errorf("healthz: %d %s", code, body)
	}
	if n := plugin.Calls("Encrypt"); n != 2 {
		t.Errorf("the plugin encrypted %d seeds for two servers, want 2", n)
	}
}

// TestUnreadableObjects checks that the error of a list names each unreadable object, that the other objects
// can be read, and that users who have the permission can delete the unreadable objects.
func TestUnreadableObjects(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "config")
	secrets := "/api/v1/namespaces/default/secrets"
	config := Config{Storage: StorageConfig{DataDir: dir, Encryption: EncryptionConfig{File: encryptionConfig(t, file, "secrets", keyed("aescbc", "old"))}}}
	r := start(t, config)
	for _, name := range []string{"a", "b"} {
		if code, body := r.do(t, "POST", secrets, `{"metadata":{"name":"`+name+`","finalizers":["example.com/x"]}}`); code != 201 {
			t.Fatalf("create %s: %d %s", name, code, body)
		}
	}
	r.end(t)
	encryptionConfig(t, file, "secrets", keyed("aescbc", "new")) // the old key is lost
	r = start(t, config)
	if code, body := r.do(t, "POST", secrets, `{"metadata":{"name":"c"}}`); code != 201 {
		t.Fatalf("create c: %d %s", code, body)
	}
	const corrupt = "StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: data from the storage is not transformable revision=0: no matching key was found for the provided AES transformer"
	unsafe := `{"ignoreStoreReadErrorWithClusterBreakingPotential":true`
	for _, step := range []struct {
		method, path, body string
		code               int
		says               []string
	}{
		{"GET", "/c", "", 200, nil},
		{"GET", "/a", "", 500, []string{`"reason":"InternalError"`, "Internal error occurred: " + fmt.Sprintf(corrupt, "/secrets/default/a")}},
		{"GET", "", "", 500, []string{`"reason":"StorageReadError"`, "failed to read one or more secrets from the storage: " + fmt.Sprintf(corrupt, "/registry/secrets/default/a") + " (and 1 more)",
			`"field":"/registry/secrets/default/a"`, `"field":"/registry/secrets/default/b"`, `"details":{"name":"list","kind":"secrets"`}},
		{"GET", "?limit=1", "", 500, []string{`"field":"/registry/secrets/default/b"`}},
		{"PUT", "/a", `{"metadata":{"name":"a"}}`, 500, []string{"/secrets/default/a"}},
		{"DELETE", "/a", "", 500, []string{"/secrets/default/a"}},
		{"DELETE", "", "", 500, []string{"StorageReadError"}},
		{"DELETE", "/a", unsafe + `,"gracePeriodSeconds":0}`, 422, []string{"cannot be set together with .gracePeriodSeconds"}},
		{"DELETE", "", unsafe + "}", 422, []string{"is not allowed with DELETECOLLECTION, try again after removing the option"}},
		{"DELETE", "/c", unsafe + "}", 409, []string{"StorageError: invalid object, Code: 4, Key: /registry/secrets/default/c, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"}},
		{"DELETE", "/none", unsafe + "}", 404, nil},
		{"DELETE", "/a", unsafe + `,"dryRun":["All"]}`, 200, nil},
		{"DELETE", "/a", unsafe + "}", 200, []string{`"status":"Success"`, `"details":{"name":"a","kind":"Secret"}`}},
		{"DELETE", "/a", unsafe + "}", 404, nil},
		{"DELETE", "/b?ignoreStoreReadErrorWithClusterBreakingPotential=true", "", 200, nil},
		{"GET", "", "", 200, []string{`"name":"c"`}},
	} {
		code, body := r.do(t, step.method, secrets+step.path, step.body)
		if code != step.code {
			t.Errorf("%s %s %s: %d %s; want %d", step.method, step.path, step.body, code, body, step.code)
		}
		for _, text := range step.says {
			if !strings.Contains(body, text) {
				t.Errorf("%s %s %s: %s\nwant %s", step.method, step.path, step.body, body, text)
			}
		}
	}
}

// TestUnsafeDeletionOff checks that the option ignoreStoreReadErrorWithClusterBreakingPotential has no effect
// if its feature gate is disabled.
func TestUnsafeDeletionOff(t *testing.T) {
	t.Parallel()
	r := start(t, Config{ControlPlane: controlplane.Options{Features: controlplane.FeatureOptions{Gates: feature.Set{"AllowUnsafeMalformedObjectDeletion": false}}}})
	if code, body := r.do(t, "POST", configMaps, `{"metadata":{"name":"a"}}`); code != 201 {
		t.Fatalf("create: %d %s", code, body)
	}
	if code, body := r.do(t, "DELETE", configMaps+"/a", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"gracePeriodSeconds":0}`); code != 200 {
		t.Errorf("delete: %d %s", code, body)
	}
}
