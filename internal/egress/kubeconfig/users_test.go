package kubeconfig_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// TestUsers checks that the user with the most specific name is selected.
func TestUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("token", "of a file\n")
	users, err := kubeconfig.ReadUsers(write("users", `
users:
- {name: 'a.own.svc:8443', user: {token: port}}
- {name: 'a.own.svc', user: {tokenFile: token}}
- {name: '*.own.svc', user: {username: joe, password: secret}}
- {name: '*.svc:8443', user: {token: all services}}
- {name: last, user: {token: current}}
contexts: [{name: c, context: {user: last}}]
current-context: c
`))
	if err != nil {
		t.Fatal(err)
	}
	for where, want := range map[[2]string]string{
		{"a.own.svc", "8443"}: "Bearer port", {"a.own.svc", "443"}: "Bearer of a file", {"b.own.svc", "443"}: "Basic am9lOnNlY3JldA==",
		{"b.own.svc", "8443"}: "Bearer all services", {"c.example.com", "443"}: "Bearer current", {"b.own.svc", "80"}: "Bearer current",
	} {
		header := http.Header{}
		credentials, err := users.CredentialsFor(where[0], where[1])
		if err == nil {
			err = credentials.Authorize(header)
		}
		if got := header.Get("Authorization"); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", where, got, err, want)
		}
	}
	var none *kubeconfig.Users
	if credentials, err := none.CredentialsFor("a", "443"); credentials != nil || err != nil || credentials.Authorize(nil) != nil {
		t.Errorf("credentials of nil Users: %v, error %v; want nil", credentials, err)
	}
	for content, want := range map[string]string{
		`users: [{name: a, user: {exec: {}}}]`: `user "a": exec is not supported here`,
		`{`:                                    "read the kubeconfig",
	} {
		if _, err := kubeconfig.ReadUsers(write("bad", content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
	users, err = kubeconfig.ReadUsers(write("half", `users: [{name: '*', user: {client-certificate-data: YQ==}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.CredentialsFor("a", "443"); err == nil || !strings.Contains(err.Error(), "the client certificate for a:443") {
		t.Errorf("a certificate without its key: %v", err)
	}
}
