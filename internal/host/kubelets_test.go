package host

import (
	"path/filepath"
	"testing"
)

// TestFirstStartWithOwnAuthority checks that flags can name the CA file even if the same start creates this
// file.
func TestFirstStartWithOwnAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := filepath.Join(dir, "pki", "ca.crt")
	config := Config{Storage: StorageConfig{DataDir: dir}, Kubelet: KubeletConfig{CAFile: ca}}
	config.Authentication.RequestHeader.ClientCAFile, config.Authentication.RequestHeader.UsernameHeaders = ca, []string{"X-Remote-User"}
	s := start(t, config)
	s.must(t, "GET", "/readyz", "")
}
