package host

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/test/testserver"
)

// writeServing issues a serving certificate for host names, and writes the certificate and its key.
func writeServing(t *testing.T, authority *pki.Authority, certFile, keyFile string, hosts ...string) {
	t.Helper()
	cert, err := authority.Serving(hosts)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})))
	write(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

// TestSNI checks which of several certificates is selected for a host name, and that changed files are
// reloaded.
func TestSNI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	reloader := &fileReloader{logger: slog.New(slog.DiscardHandler)}
	var config TLSConfig
	add := func(hosts, names []string) {
		file := filepath.Join(dir, hosts[0])
		writeServing(t, authority, file+".crt", file+".key", hosts...)
		config.SNI = append(config.SNI, SNICertificate{CertFile: file + ".crt", KeyFile: file + ".key", Names: names})
	}
	add([]string{"wild.example", "*.example.com", "x.example.org"}, nil)
	add([]string{"named"}, []string{"a.example.com", "*.example.net"})
	add([]string{"own", "b.example.com", "*.example.net", "x.example.org"}, nil)
	certs, err := newCertificates(config, authority, reloader)
	if err != nil {
		t.Fatal(err)
	}
	main, err := authority.Serving([]string{"main"})
	if err != nil {
		t.Fatal(err)
	}
	certs.setOwn(main)
	for host, want := range map[string]string{
		"c.example.com": "wild.example", "C.Example.COM": "wild.example", "x.c.example.com": "main", "example.com": "main",
		"a.example.com": "named", "A.example.com": "named", "named": "main", // the names in the flag replace the name in the certificate
		"b.example.com": "own", "x.example.org": "wild.example", // the first matching certificate
		"y.example.net": "named", // a name in the flag
		"":              "main", "other.org": "main",
	} {
		cert, err := certs.get(&tls.ClientHelloInfo{ServerName: host})
		if err != nil || cert.Leaf.DNSNames[0] != want {
			t.Errorf("%s: got the certificate of %s, error %v; want the certificate of %s", host, cert.Leaf.DNSNames, err, want)
		}
	}
	writeServing(t, authority, config.SNI[2].CertFile, config.SNI[2].KeyFile, "new", "d.example.com")
	reloader.reload()
	for host, want := range map[string]string{"b.example.com": "wild.example", "d.example.com": "new"} {
		if cert, err := certs.get(&tls.ClientHelloInfo{ServerName: host}); err != nil || cert.Leaf.DNSNames[0] != want {
			t.Errorf("%s: got the certificate of %s, error %v; want the certificate of %s", host, cert.Leaf.DNSNames, err, want)
		}
	}
}

// TestHandshake checks that the TLS options determine which handshakes succeed, and that insecure cipher
// suites are logged.
func TestHandshake(t *testing.T) {
	t.Parallel()
	log := &testserver.Buffer{}
	s := start(t, Config{
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		TLS:    TLSConfig{CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256}, CurvePreferences: []tls.CurveID{tls.CurveP256}},
	})
	for _, tt := range []struct {
		name string
		with func(*tls.Config)
		ok   bool
	}{
		{"TLS 1.3", func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, true},
		{"the cipher suite", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256}
		}, true},
		{"another cipher suite", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
		}, false},
		{"another key exchange", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }, false},
		{"an older version", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, false},
	} {
		config := &tls.Config{InsecureSkipVerify: true}
		tt.with(config)
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "https://"))
		if (err == nil) != tt.ok {
			t.Errorf("%s: handshake error %v, want success: %t", tt.name, err, tt.ok)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
	if !strings.Contains(log.String(), "Use of insecure cipher 'TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256' detected.") {
		t.Error("no warning about the cipher suite")
	}
}

// TestCertDir checks that the server uses a certificate in --cert-dir only if another authority issued it, and
// replaces only its own certificate.
func TestCertDir(t *testing.T) {
	t.Parallel()
	open := func(dir string) *pki.Authority {
		t.Helper()
		authority, err := pki.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return authority
	}
	own, other := open(t.TempDir()), open(t.TempDir())
	for name, tt := range map[string]struct {
		authority *pki.Authority // issues the certificate in the folder; nil if the folder is empty
		remove    string
		used      bool
		err       string
	}{
		"empty":               {},
		"other authority":     {authority: other, used: true},
		"own authority":       {authority: own},
		"own without its key": {authority: own, remove: "apiserver.key"},
		"key only":            {authority: other, remove: "apiserver.crt", err: "contains apiserver.key but no apiserver.crt"},
	} {
		dir := t.TempDir()
		if tt.authority != nil {
			writeServing(t, tt.authority, filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"), "localhost")
		}
		if tt.remove != "" {
			if err := os.Remove(filepath.Join(dir, tt.remove)); err != nil {
				t.Fatal(err)
			}
		}
		certs, err := newCertificates(TLSConfig{CertDir: dir}, own, &fileReloader{logger: slog.New(slog.DiscardHandler)})
		if err != nil || tt.err != "" {
			if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
			continue
		}
		if (certs.file != nil) != tt.used {
			t.Errorf("%s: the certificate is used: %t", name, certs.file != nil)
		}
	}
	// Export replaces a pair that a crash left incomplete.
	dir := t.TempDir()
	serving, err := own.Serving([]string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := own.Export(dir, serving); err != nil {
			t.Fatal(err)
		}
		if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(dir, "apiserver.key")); err != nil {
			t.Fatal(err)
		}
	}
	// Export does not replace files that an administrator has added while the server runs.
	crt, key := filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key")
	for _, certificateFirst := range []bool{true, false} {
		writeServing(t, other, crt, key, "localhost")
		if !certificateFirst {
			if err := os.Remove(crt); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Export(dir, serving); err != nil {
			t.Error(err)
		}
		if after, err := os.ReadFile(key); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the key of another authority was replaced: %v", err)
		}
	}
}
