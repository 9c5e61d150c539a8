package kubeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	text := `
clusters:
- name: a
  cluster: {server: "https://a:1/", certificate-authority: ca.crt}
- name: broken
users:
- name: u
  user: {client-certificate: /etc/u.crt, tokenFile: sub/token, exec: {command: ./login}}
- name: v
  user: {exec: {command: login}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := WithPath(file, "/at/rv/7")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"server: https://a:1/at/rv/7\n", "certificate-authority: " + dir + "/ca.crt\n", "client-certificate: /etc/u.crt\n",
		"tokenFile: " + dir + "/sub/token\n", "command: " + dir + "/login\n", "command: login\n",
	} {
		if !strings.Contains(string(got), filepath.FromSlash(want)) {
			t.Errorf("the text has no %q:\n%s", want, got)
		}
	}
	if _, err := WithPath(filepath.Join(dir, "none"), "/"); err == nil {
		t.Error("WithPath returned no error for a missing file")
	}
}
