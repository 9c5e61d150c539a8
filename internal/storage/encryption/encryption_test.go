package encryption

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/encryption/kmstest"
)

func TestMain(m *testing.M) { os.Exit(kmstest.Main(m)) }

const (
	storeKey = "/registry/secrets/a/b"
	header   = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n"
)

var (
	plain   = []byte("k8s\x00a secret")
	secrets = schema.GroupResource{Resource: "secrets"}
)

// secret returns a key of 32 bytes in base64.
func secret(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }

// provider returns a provider of a configuration in YAML.
func provider(kind string, keys ...string) string {
	if kind == "identity" {
		return "  - identity: {}\n"
	}
	text := fmt.Sprintf("  - %s:\n      keys:\n", kind)
	for _, key := range keys {
		text += fmt.Sprintf("      - {name: '%s', secret: %s}\n", key, secret(key[0]))
	}
	return text
}

func rule(resources string, providers ...string) string {
	return "- resources: [" + resources + "]\n  providers:\n" + strings.Join(providers, "")
}

func write(t testing.TB, file, config string) {
	t.Helper()
	next := file + ".next"
	if err := os.WriteFile(next, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, rules ...string) *Transformers {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, header+strings.Join(rules, ""))
	tr, err := Open(t.Context(), Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func seal(t testing.TB, tr storage.Transformer) []byte {
	t.Helper()
	sealed, err := tr.ToStorage(t.Context(), plain, storeKey)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func opens(t testing.TB, tr storage.Transformer, sealed []byte, wantStale bool) {
	t.Helper()
	got, stale, err := tr.FromStorage(t.Context(), sealed, storeKey)
	if err != nil || !bytes.Equal(got, plain) || stale != wantStale {
		t.Errorf("%.40q: read %q, stale %t, %v; want stale %t", sealed, got, stale, err, wantStale)
	}
}

// TestRotation checks that the first key of the first provider encrypts, all keys decrypt, and
// values of other keys are stale.
func TestRotation(t *testing.T) {
	t.Parallel()
	for kind, prefix := range map[string]string{"aescbc": "k8s:enc:aescbc:v1:", "aesgcm": "k8s:enc:aesgcm:v1:", "secretbox": "k8s:enc:secretbox:v1:"} {
		one := open(t, rule("secrets", provider(kind, "1"))).For(secrets)
		first := seal(t, one)
		if !bytes.HasPrefix(first, []byte(prefix+"1:")) || bytes.Contains(first, plain) {
			t.Errorf("%s: stored as %q", kind, first)
		}
		opens(t, one, first, false)
		two := open(t, rule("secrets", provider(kind, "2", "1"), provider("identity"))).For(secrets)
		opens(t, two, first, true)
		opens(t, two, plain, true)
		second := seal(t, two)
		opens(t, two, second, false)
		if _, _, err := one.FromStorage(t.Context(), second, storeKey); err == nil || !strings.HasPrefix(err.Error(), "no matching key was found for the provided ") {
			t.Errorf("%s: value with an unknown key: %v", kind, err)
		}
		if _, _, err := one.FromStorage(t.Context(), plain, storeKey); err == nil || err.Error() != "no matching prefix found" {
			t.Errorf("%s: plain text: %v", kind, err)
		}
		split := open(t, rule("secrets", provider(kind, "2"), provider(kind, "1"))).For(secrets)
		opens(t, split, first, true)
		opens(t, split, second, false)
		away := open(t, rule("secrets", provider("identity"), provider(kind, "1"))).For(secrets)
		opens(t, away, first, true)
		opens(t, away, seal(t, away), false)
		if _, _, err := (storage.Identity{}).FromStorage(t.Context(), first, storeKey); err == nil || err.Error() != "identity transformer tried to read encrypted data" {
			t.Errorf("%s: without a configuration: %v", kind, err)
		}
	}
}

// TestRules checks the selection of the rule of a resource.
func TestRules(t *testing.T) {
	t.Parallel()
	tr := open(t,
		rule("events", provider("identity")),
		rule("secrets", provider("aesgcm", "1")),
		rule("secrets, deployments.apps", provider("aesgcm", "2")),
		rule("'*.apps', '*.example.com'", provider("aesgcm", "3")),
		rule("'*.'", provider("aesgcm", "4")),
		rule("'*.*'", provider("aesgcm", "5")),
	)
	for name, key := range map[string]string{
		"events": "", "secrets": "1", "deployments.apps": "2", "daemonsets.apps": "3", "widgets.example.com": "3", "pods": "4",
		"leases.coordination.k8s.io": "5", "widgets.sub.example.com": "5",
		"apiserveripinfo": "", "rangeallocations": "", "nodeports": "",
	} {
		sealed := seal(t, tr.For(schema.ParseGroupResource(name)))
		want := "k8s:enc:aesgcm:v1:" + key + ":"
		if key == "" {
			want = string(plain)
		}
		if !bytes.HasPrefix(sealed, []byte(want)) {
			t.Errorf("%s is stored as %.30q, want %q", name, sealed, want)
		}
	}
	if got := open(t, rule("secrets", provider("aesgcm", "1"))).For(schema.GroupResource{Resource: "pods"}); got != (storage.Identity{}) {
		t.Errorf("a resource without a rule has %T", got)
	}
	second := open(t, rule("secrets", provider("aesgcm", "2"))).For(secrets)
	opens(t, tr.For(secrets), seal(t, second), true) // two rules of one resource
}

// TestInvalidFiles checks that errors have kube-apiserver's text and contain no secret.
func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	kms := func(fields string) string { return "  - kms: {" + fields + "}\n" }
	whole := "apiVersion: v2, name: k, endpoint: 'unix:///k'"
	for config, want := range map[string]string{
		"":                          "is empty",
		"kind: [":                   "error decoding encryption provider configuration",
		"kind: Pod\napiVersion: v1": "got unexpected config type",
		header + "- resource: []\n": `strict decoding error: unknown field "resources[0].resource"`,
		strings.TrimSuffix(header, "resources:\n"): "resources: Required value: at least one resources is required",
		header + "- {}\n":                          "[resources[0].resources: Required value: at least one resources[0].resources is required, resources[0].providers: Required value: at least one resources[0].providers is required]",
		header + rule("secrets", "  - {}\n"):       "resources[0].providers[0]: Invalid value: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
		header + rule("secrets", "  - {identity: {}, aescbc: {keys: [{name: a, secret: "+secret('s')+"}]}}\n"): "more than one provider specified in a single element, should split into different list elements",
		header + rule("secrets", "  - aescbc: {keys: []}\n"):                                                   "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required",
		header + rule("secrets", "  - aescbc: {keys: [{name: a, secret: '"+secret('s')+"!'}]}\n"):              `resources[0].providers[0].aescbc.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded`,
		header + rule("secrets", "  - secretbox: {keys: [{name: a, secret: c3Nzc3Nzc3Nzc3Nzc3Nzcw==}]}\n"):     "secret is not of the expected length, got 16, expected one of [32]",
		header + rule("secrets", "  - aesgcm: {keys: [{}]}\n"):                                                 "[resources[0].providers[0].aesgcm.keys[0].name: Required value: name is a mandatory field for a key, resources[0].providers[0].aesgcm.keys[0].secret: Required value: secret is a mandatory field for a key]",
		header + rule("secrets, secrets", provider("identity")):                                                "the same resource cannot be specified multiple times",
		header + rule("secrets, '*.'", provider("identity")):                                                   "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
		header + rule("a.b, '*.*'", provider("identity")):                                                      "using overlapping resources",
		header + rule("Secrets", provider("identity")):                                                         "resource name should not contain capital letters",
		header + rule("'*'", provider("identity")):                                                             "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
		header + rule("serviceipallocations", provider("identity")):                                            "resources which do not have REST API/s cannot be encrypted",
		header + rule("events.events.k8s.io", provider("identity")):                                            "Use 'events' instead in the config file",
		header + rule("ingresses.extensions", provider("identity")):                                            "'extensions' group has been removed and cannot be used for encryption",
		header + rule("'secrets.*'", provider("identity")):                                                     "encrypting the same resource across groups is not supported",
		header + rule("'*.*'", provider("identity")) + rule("secrets", provider("identity")):                   `error while building transformers: resource "secrets" is masked by earlier rule "*.*"`,
		header + rule("'*.'", provider("identity")) + rule("secrets", provider("identity")):                    `resource "secrets" is masked by earlier rule "*."`,
		header + rule("'*.apps'", provider("identity")) + rule("'*.apps'", provider("identity")):               `resource "*.apps" is masked by earlier rule "*.apps"`,
		header + rule("secrets", kms("apiVersion: v1, name: old, endpoint: 'unix:///k'")):                      "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.",
		header + rule("secrets", kms("apiVersion: v3, name: k, endpoint: 'unix:///k'")):                        `apiVersion: Invalid value: "v3": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported`,
		header + rule("secrets", kms("apiVersion: v2, name: 'a:b', endpoint: 'unix:///k'")):                    "invalid KMS provider name a:b, must not contain ':'",
		header + rule("secrets", kms("apiVersion: v2, endpoint: 'unix:///k'")):                                 "name is a mandatory field for a provider",
		header + rule("secrets", kms("apiVersion: v2, name: k")):                                               "endpoint is a mandatory field for a kms",
		header + rule("secrets", kms("apiVersion: v2, name: k, endpoint: 'tcp://k'")):                          `unsupported scheme "tcp" for KMS provider, only unix is supported`,
		header + rule("secrets", kms(whole+", timeout: 0s")):                                                   `timeout: Invalid value: "0s": timeout should be a positive value`,
		header + rule("secrets", kms(whole+", cachesize: 5")):                                                  "cachesize is not supported in v2",
		header + rule("secrets", kms(whole), kms(whole)):                                                       "duplicate KMS provider name k, names must be unique",
	} {
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, config)
		_, err := Open(t.Context(), Options{File: file})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", config, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), secret('s')) || strings.Contains(err.Error(), "c3Nz")) {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
	if _, err := Open(t.Context(), Options{File: filepath.Join(t.TempDir(), "none")}); err == nil || !strings.Contains(err.Error(), "error reading encryption provider configuration file") {
		t.Errorf("no file: %v", err)
	}
	key := Key{Name: "a", Secret: "hidden"}
	if text := fmt.Sprintf("%v %+v %#v %s", key, key, key, key.LogValue()); strings.Contains(text, "hidden") {
		t.Errorf("a key prints as %s", text)
	}
}

// eventually waits for an effect of Run.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

func count(t testing.TB, m *Metrics, status string) float64 {
	t.Helper()
	var metric dto.Metric
	if err := m.reloads.WithLabelValues(status, m.server).Write(&metric); err != nil {
		t.Fatal(err)
	}
	return metric.GetCounter().GetValue()
}

// TestReload checks that a valid file is loaded, and an invalid one has no effect.
func TestReload(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry, "apiserver-a")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, header+rule("secrets", provider("aescbc", "1"), provider("identity")))
	tr, err := Open(t.Context(), Options{File: file, Reload: true, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); tr.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	of, pods := tr.For(secrets), tr.For(schema.GroupResource{Resource: "pods"})
	first := seal(t, of)
	write(t, file, "kind: [")
	eventually(t, "the failure is counted", func() bool { return count(t, metrics, "failure") > 0 })
	opens(t, of, first, false)

	plugin := kmstest.New(t)
	write(t, file, header+rule("'*.'", fmt.Sprintf("  - kms: {apiVersion: v2, name: k, endpoint: '%s', timeout: 10s}\n", plugin.Endpoint()), provider("aescbc", "1"), provider("identity")))
	eventually(t, "the key service is used", func() bool { return bytes.HasPrefix(seal(t, pods), []byte("k8s:enc:kms:v2:k:")) })
	opens(t, of, first, true)
	opens(t, pods, seal(t, pods), false)
	if err := tr.Check(t.Context()); err != nil || !tr.HasCheck() {
		t.Errorf("check: %v", err)
	}
	eventually(t, "the success is counted", func() bool {
		return count(t, metrics, "success") == 1
	})
	found, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, family := range found {
		names[family.GetName()] = true
	}
	for _, name := range []string{
		"apiserver_encryption_config_controller_last_config_info", "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
		"apiserver_storage_transformation_operations_total", "apiserver_storage_transformation_duration_seconds",
		"apiserver_envelope_encryption_kms_operations_latency_seconds", "apiserver_envelope_encryption_key_id_hash_total",
		"apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds", "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds",
		"apiserver_envelope_encryption_dek_source_cache_size", "apiserver_storage_data_key_generation_duration_seconds",
	} {
		if !names[name] {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// TestPluginDown checks that the server starts without its plugin and reports it in its health.
func TestPluginDown(t *testing.T) {
	t.Parallel()
	plugin := kmstest.New(t)
	plugin.Set(kmstest.Behavior{Fail: true})
	tr := open(t, rule("secrets", fmt.Sprintf("  - kms: {apiVersion: v2, name: k, endpoint: '%s', timeout: 10s}\n", plugin.Endpoint())))
	if err := tr.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "kms-provider-0: failed to perform status section of the healthz check for KMS Provider k") {
		t.Errorf("health: %v", err)
	}
	if _, err := tr.For(secrets).ToStorage(t.Context(), plain, storeKey); err == nil || !strings.Contains(err.Error(), "the KMS plugin k has not responded yet") {
		t.Errorf("write: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(header + rule("secrets, '*.apps'", provider("aescbc", "1", "2"), provider("identity"))))
	f.Add([]byte(header + rule("'*.*'", "  - kms: {apiVersion: v2, name: k, endpoint: 'unix:///k', timeout: 1s}\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Parse(data, false)
		if err != nil {
			return
		}
		b := &builder{options: &Options{}}
		rules, err := b.rules(config)
		for _, plugin := range b.plugins {
			plugin.Close()
		}
		if err == nil && len(rules) == 0 {
			t.Error("a valid configuration without rules")
		}
	})
}

func FuzzFromStorage(f *testing.F) {
	tr := open(f, rule("secrets", provider("aescbc", "1", "2"), provider("aesgcm", "1"), provider("secretbox", "1"), provider("identity"))).For(secrets)
	f.Add(seal(f, tr))
	f.Add([]byte("k8s:enc:aesgcm:v1:1:short"))
	f.Add([]byte("k8s:enc:kms:v2:k:"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		got, _, err := tr.FromStorage(t.Context(), data, storeKey)
		if !bytes.Equal(before, data) {
			t.Error("the stored value was changed")
		}
		if err == nil && bytes.HasPrefix(got, []byte("k8s:enc:")) && bytes.Equal(got, data) {
			t.Error("an encrypted value was returned without decryption")
		}
	})
}

// BenchmarkWrite measures the additional cost of writing a secret of 1 KiB.
func BenchmarkWrite(b *testing.B) {
	value := bytes.Repeat([]byte("k8s\x00"), 256)
	plugin := kmstest.New(b)
	for name, with := range map[string]string{
		"aescbc": provider("aescbc", "1"), "aesgcm": provider("aesgcm", "1"), "secretbox": provider("secretbox", "1"),
		"kms": fmt.Sprintf("  - kms: {apiVersion: v2, name: k, endpoint: '%s'}\n", plugin.Endpoint()),
	} {
		b.Run(name, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "config")
			write(b, file, header+rule("secrets", with))
			metrics, err := NewMetrics(prometheus.NewRegistry(), "apiserver-a")
			if err != nil {
				b.Fatal(err)
			}
			tr, err := Open(b.Context(), Options{File: file, Metrics: metrics})
			if err != nil {
				b.Fatal(err)
			}
			of := tr.For(secrets)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := of.ToStorage(b.Context(), value, storeKey); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
