package host

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

// TestSecretsAreNotLogged sends valid and invalid requests. It checks that neither the data of Secrets nor
// tokens occur in the log at its highest verbosity, in metrics, or in errors about other objects.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	const token = "tOkEn7Zt0KmW4sQ2"
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte(token+",jane,1,system:masters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log testserver.Buffer
	r := start(t, Config{
		Authentication: AuthenticationConfig{TokenFile: TokenFileConfig{File: tokens}},
		Storage:        StorageConfig{Encryption: EncryptionConfig{File: encryptionConfig(t, filepath.Join(dir, "config"), "secrets", keyed("aescbc", "one"))}},
		Logger:         slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})),
	})
	secrets := "/api/v1/namespaces/default/secrets"
	encoded := base64.StdEncoding.EncodeToString([]byte(marker))
	var errors strings.Builder
	for _, step := range []struct {
		bearer, method, path, body string
	}{
		{"", "POST", secrets, `{"metadata":{"name":"a"},"stringData":{"k":"` + marker + `"}}`},
		{"", "POST", secrets, `{"metadata":{"name":"a"},"stringData":{"k":"` + marker + `"}}`},
		{"", "PUT", secrets + "/a", `{"metadata":{"name":"a","resourceVersion":"1"},"data":{"k":"` + encoded + `"}}`},
		{"", "PUT", secrets + "/a", `{"metadata":{"name":"a"},"type":"other","data":{"k":"` + encoded + `"}}`},
		{"", "PUT", secrets + "/b", `{"metadata":{"name":"a"},"data":{"k":"` + encoded + `"}}`},
		{token, "GET", secrets, ""}, // jane, of system:masters
		{token, "PATCH", secrets + "/a", `{"data":{"k":"` + encoded + `"}}`},
		{token + "x", "GET", secrets, ""},
		{token + "." + token + "." + token, "GET", secrets, ""},
		{token, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"` + token + `y"}}`},
		{"", "DELETE", secrets + "/a", `{"preconditions":{"uid":"1"}}`},
	} {
		by, header := r.admin, []string{"Content-Type", "application/json"}
		if step.method == http.MethodPatch {
			header[1] = "application/merge-patch+json"
		}
		if step.bearer != "" {
			by, header = client(t, nil), append(header, "Authorization", "Bearer "+step.bearer)
		}
		code, body := r.sendBy(t, by, step.method, step.path, step.body, header...)
		if code >= 400 {
			errors.WriteString(body)
		}
	}
	encryptionConfig(t, filepath.Join(dir, "config"), "secrets", keyed("aescbc", "two"))
	_, metrics := r.send(t, "GET", "/metrics", "")
	r.end(t)
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 32)))
	for _, secret := range []string{marker, encoded, token, key} {
		for where, text := range map[string]string{"the log": log.String(), "the metrics": metrics, "an error": errors.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", secret, where)
			}
		}
	}
	if log.String() == "" || metrics == "" || errors.String() == "" {
		t.Error("the log, the metrics or the errors are empty")
	}
}

// TestDataDirectoryIsPrivate checks that only the user of the server can read the files or list the folders of
// the data directory.
func TestDataDirectoryIsPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := filepath.Join(t.TempDir(), "data")
	r := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	if code, body := r.do(t, "POST", configMaps, `{"metadata":{"name":"a"}}`); code != 201 {
		t.Fatalf("create: %d %s", code, body)
	}
	r.end(t)
	for _, folder := range []string{".", "pki", "store"} {
		if info, err := os.Stat(filepath.Join(dir, folder)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("folder %s: %v, error %v; want no access for others", folder, info, err)
		}
	}
	for _, pattern := range []string{"*.kubeconfig", "pki/*.key"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("files %s: %q, error %v", pattern, files, err)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("file %s: mode %v, want 0600", file, mode)
			}
		}
	}
}
