package host

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/host/pki"
)

// TestCertificateExpiry checks that the metric contains the expiry times of the server's own certificates and
// of certificates that flags name.
func TestCertificateExpiry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "named")
	writeServing(t, authority, file+".crt", file+".key", "a.example.com")
	s := start(t, Config{
		TLS:     TLSConfig{SNI: []SNICertificate{{CertFile: file + ".crt", KeyFile: file + ".key"}}},
		Kubelet: KubeletConfig{ClientCertFile: file + ".crt", ClientKeyFile: file + ".key"},
	})
	found := map[string]bool{}
	for line := range strings.Lines(s.must(t, "GET", "/metrics", "")) {
		rest, ok := strings.CutPrefix(line, `mainstay_certificate_expiration_timestamp_seconds{certificate="`)
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(rest, `"} `)
		var expires float64
		if _, err := fmt.Sscan(value, &expires); err != nil {
			t.Fatalf("parse the metric %q: %v", line, err)
		}
		if at := time.Unix(int64(expires), 0); !at.After(time.Now().Add(24 * time.Hour)) {
			t.Errorf("the certificate %s expires at %s", name, at)
		}
		found[name] = true
	}
	for _, name := range []string{"authority", "serving", "serving kube-apiserver,a.example.com", "front proxy client", "kubelet client"} {
		if !found[name] {
			t.Errorf("there is no series for %s in %v", name, found)
		}
	}
}
