package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"mainstay.dev/mainstay/internal/storage/encryption"
	"mainstay.dev/mainstay/internal/storage/encryption/kmstest"
)

func configFile(t *testing.T, rules string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n" + rules
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func secrets(providers ...string) string {
	return "- resources: [secrets]\n  providers: [{" + strings.Join(providers, "}, {") + "}]\n"
}

// key returns the configuration of a provider with one key of the given size in bytes.
func key(size int) string {
	return fmt.Sprintf("{keys: [{name: k%d, secret: %s}]}", size, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(size)}, size)))
}

// TestEncryptedBytes checks that each server can decrypt the values that the other has encrypted, and does not
// report them as stale. It also checks that both servers react in the same way, by decrypting or rejecting, to
// a value that was moved to another key of the store.
func TestEncryptedBytes(t *testing.T) {
	plugin := kmstest.New(t)
	plugin.Set(kmstest.Behavior{KeyID: "key", Annotations: map[string][]byte{"b.example.com": []byte("1"), "a.example.com": nil}})
	for name, provider := range map[string]string{
		"identity": "identity: {}", "secretbox": "secretbox: " + key(32),
		"aescbc 16": "aescbc: " + key(16), "aescbc 32": "aescbc: " + key(32),
		"aesgcm 16": "aesgcm: " + key(16), "aesgcm 24": "aesgcm: " + key(24), "aesgcm 32": "aesgcm: " + key(32),
		"kms": fmt.Sprintf("kms: {apiVersion: v2, name: plugin, endpoint: '%s', timeout: 20s}", plugin.Endpoint()),
	} {
		t.Run(name, func(t *testing.T) {
			file := configFile(t, secrets(provider))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			theirs, err := encryptionconfig.LoadEncryptionConfig(ctx, file, false, "id")
			if err != nil {
				t.Fatal(err)
			}
			ours, err := encryption.Open(ctx, encryption.Options{File: file})
			if err != nil {
				t.Fatal(err)
			}
			resource := schema.GroupResource{Resource: "secrets"}
			they, we := encryptionconfig.StaticTransformers(theirs.Transformers).TransformerForResource(resource), ours.For(resource)
			const at, elsewhere = "/registry/secrets/a/b", "/registry/secrets/a/c"
			for _, n := range []int{0, 1, 15, 16, 17, 1000, 100_000} {
				plain := append([]byte("k8s\x00"), bytes.Repeat([]byte{'x'}, n)...)
				byUs, err := we.ToStorage(ctx, plain, at)
				if err != nil {
					t.Fatal(err)
				}
				if got, stale, err := they.TransformFromStorage(ctx, byUs, value.DefaultContext(at)); err != nil || stale || !bytes.Equal(got, plain) {
					t.Errorf("%d bytes, by us: they read %.20q, stale %t, %v", n, got, stale, err)
				}
				byThem, err := they.TransformToStorage(ctx, plain, value.DefaultContext(at))
				if err != nil {
					t.Fatal(err)
				}
				if got, stale, err := we.FromStorage(ctx, byThem, at); err != nil || stale || !bytes.Equal(got, plain) {
					t.Errorf("%d bytes, by them: we read %.20q, stale %t, %v", n, got, stale, err)
				}
				if len(byUs) != len(byThem) && name != "kms" { // with kms, the nonce and the order of annotations vary
					t.Errorf("%d bytes become %d here and %d there", n, len(byUs), len(byThem))
				}
				_, _, ourErr := we.FromStorage(ctx, byThem, elsewhere)
				_, _, theirErr := they.TransformFromStorage(ctx, byThem, value.DefaultContext(elsewhere))
				if (ourErr == nil) != (theirErr == nil) {
					t.Errorf("moved to another key: %v here, %v there", ourErr, theirErr)
				}
			}
			for _, stored := range []string{"", "{}", "k8s:enc:", "k8s:enc:aesgcm:v1:", "k8s:enc:aesgcm:v1:k16:x", "k8s:enc:secretbox:v1:k32:x", "k8s:enc:aescbc:v1:k16:0123456789abcdef0", "k8s:enc:kms:v2:plugin:x", "k8s:enc:kms:v1:x:"} {
				_, _, ourErr := we.FromStorage(ctx, []byte(stored), at)
				_, _, theirErr := they.TransformFromStorage(ctx, []byte(stored), value.DefaultContext(at))
				if (ourErr == nil) != (theirErr == nil) || ourErr != nil && name != "kms" && ourErr.Error() != theirErr.Error() {
					t.Errorf("%q: %v here, %v there", stored, ourErr, theirErr)
				}
			}
		})
	}
}

// TestRefusedConfigurations checks that invalid configurations are rejected with kube-apiserver's
// messages.
func TestRefusedConfigurations(t *testing.T) {
	kms := func(fields string) string { return "kms: {" + fields + "}" }
	whole := "apiVersion: v2, name: k, endpoint: 'unix:///k'"
	for _, rules := range []string{
		"- {}\n", "- resources: [secrets]\n", "- providers: [{identity: {}}]\n", secrets("aescbc: {keys: []}"), secrets("aescbc: {}"), secrets("aesgcm: {keys: [{}]}"),
		secrets("aesgcm: {keys: [{name: a, secret: '!'}]}"), secrets("aesgcm: {keys: [{name: a, secret: YQ==}]}"), secrets("secretbox: {keys: [{name: a, secret: YQ==}, {secret: YQ==}]}"),
		"- resources: [secrets, secrets]\n  providers: [{identity: {}}]\n", "- resources: [secrets, '*.']\n  providers: [{identity: {}}]\n",
		"- resources: ['*.*', a.b, a.b]\n  providers: [{identity: {}}]\n", "- resources: [Pods, '*', 'a.*', x.extensions, events.events.k8s.io, apiserveripinfo]\n  providers: [{identity: {}}]\n",
		"- resources: [a.b, c.d]\n  providers: [{identity: {}}]\n- resources: ['*.b']\n  providers: [{identity: {}}]\n- resources: [a.b]\n  providers: [{identity: {}}]\n",
		"- resources: ['*.*']\n  providers: [{identity: {}}]\n- resources: ['*.b']\n  providers: [{identity: {}}]\n",
		secrets(kms("apiVersion: v3, name: k, endpoint: 'unix:///k'")), secrets(kms("name: 'a:b'")), secrets(kms("apiVersion: v2")), secrets(kms(whole + ", cachesize: 1")),
		secrets(kms(whole), kms(whole)), secrets(kms("apiVersion: v2, name: k, endpoint: 'http://k'")), secrets(kms("apiVersion: v2, name: k, endpoint: '::'")),
		secrets(kms("apiVersion: v1, name: k, endpoint: 'unix:///k', cachesize: 0")),
	} {
		file := configFile(t, rules)
		_, theirs := encryptionconfig.LoadEncryptionConfig(t.Context(), file, false, "id")
		_, ours := encryption.Open(t.Context(), encryption.Options{File: file})
		if theirs == nil || ours == nil {
			t.Errorf("%s\n%v here, %v there", rules, ours, theirs)
			continue
		}
		want := strings.TrimPrefix(strings.TrimPrefix(theirs.Error(), "error while parsing file: "), "error while building transformers: ")
		if !strings.Contains(ours.Error(), want) {
			t.Errorf("%s\nhere:  %v\nthere: %v", rules, ours, theirs)
		}
	}
}
