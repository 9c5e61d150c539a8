package host

import (
	"path/filepath"
	"testing"
)

// TestFirstStartWithOwnAuthority checks that flags may name the CA file that the first start
// creates.
func TestFirstStartWithOwnAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := filepath.Join(dir, "pki", "ca.crt")
	config := Config{Storage: StorageConfig{DataDir: dir}, Kubelet: KubeletConfig{CAFile: ca}}
	config.Authentication.RequestHeader.ClientCAFile, config.Authentication.RequestHeader.UsernameHeaders = ca, []string{"X-Remote-User"}
	s := start(t, config)
	s.must(t, "GET", "/readyz", "")
}
