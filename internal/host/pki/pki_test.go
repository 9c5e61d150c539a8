package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func serving(t *testing.T, a *Authority, hosts ...string) *x509.Certificate {
	t.Helper()
	cert, err := a.Serving(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf
}

// TestReuse checks that a second start uses the files of the first start.
func TestReuse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data", "pki")
	first, second := open(t, dir), open(t, dir)
	if !bytes.Equal(first.Bundle(), second.Bundle()) {
		t.Error("the authority was created again")
	}
	if one, two := serving(t, first, "localhost"), serving(t, second, "localhost"); !one.Equal(two) {
		t.Error("the serving certificate was created again")
	}
	cert1, key1, err1 := first.Client("admin", "jane", "devs", "ops")
	cert2, key2, err2 := second.Client("admin", "jane", "devs", "ops")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if !bytes.Equal(cert1, cert2) || !bytes.Equal(key1, key2) {
		t.Error("the client certificate was created again")
	}
	sa1, err1 := SigningKey(dir)
	sa2, err2 := SigningKey(dir)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if !sa1.(*ecdsa.PrivateKey).Equal(sa2) {
		t.Error("the signing key was created again")
	}
}

// TestServingVerifies checks that clients that trust the CA accept the serving certificate for each of its
// hosts, and for no other hosts.
func TestServingVerifies(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir())
	cert := serving(t, a, "localhost", "127.0.0.1", "::1", "kubernetes.default.svc")
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "::1": true, "kubernetes.default.svc": true,
		"example.com": false, "10.0.0.1": false,
	} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != want {
			t.Errorf("verify for %s: %v", host, err)
		}
	}
}

func TestClientNamesItsUser(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir())
	certPEM, _, err := a.Client("jane", "jane", "devs", "ops")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if cert.Subject.CommonName != "jane" || !sameSet(cert.Subject.Organization, []string{"ops", "devs"}) {
		t.Errorf("the subject is %s", cert.Subject)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("the client certificate is accepted for a server")
	}
}

// TestRenewal checks the conditions under which a certificate is renewed.
func TestRenewal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		between func(t *testing.T, dir string) // between two calls of Serving
		hosts   []string
		renewed bool
	}{
		{"nothing changed", nil, []string{"a", "b"}, false},
		{"fewer hosts", nil, []string{"a"}, false},
		{"another host", nil, []string{"a", "b", "c"}, true},
		{"a month to go", func(*testing.T, string) { time.Sleep(leafLifetime - renewBefore + time.Hour) }, []string{"a", "b"}, true},
		{"more than a month to go", func(*testing.T, string) { time.Sleep(leafLifetime - renewBefore - time.Hour) }, []string{"a", "b"}, false},
		{"long expired", func(*testing.T, string) { time.Sleep(2 * leafLifetime) }, []string{"a", "b"}, true},
		{"another authority", func(t *testing.T, dir string) {
			for _, name := range []string{"ca.crt", "ca.key"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"a", "b"}, true},
		{"crashed between key and certificate", func(t *testing.T, dir string) {
			key, err := os.ReadFile(filepath.Join(dir, "ca.key"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "apiserver.key"), key, 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"a", "b"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				before := serving(t, open(t, dir), "a", "b")
				if tt.between != nil {
					tt.between(t, dir)
				}
				after := serving(t, open(t, dir), tt.hosts...)
				if renewed := !before.Equal(after); renewed != tt.renewed {
					t.Errorf("renewed: %t, want %t", renewed, tt.renewed)
				}
				if time.Now().After(after.NotAfter) {
					t.Error("the certificate has expired")
				}
			})
		})
	}
}

func TestAuthorityExpires(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, dir)
		time.Sleep(authorityLifetime - time.Hour)
		if cert := serving(t, a, "a"); cert.NotAfter.After(a.NotAfter()) {
			t.Error("a certificate expires after its authority")
		}
		time.Sleep(2 * time.Hour)
		_, err := Open(dir)
		wantError(t, err, ErrExpired, "ca.crt", "remove the folder "+dir)
	})
}

func TestModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	dir := filepath.Join(t.TempDir(), "pki")
	serving(t, open(t, dir), "a")
	if _, err := SigningKey(dir); err != nil {
		t.Fatal(err)
	}
	seen := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		seen[filepath.Base(path)] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{
		"pki": 0o700, "ca.crt": 0o600, "ca.key": 0o600, "apiserver.crt": 0o600, "apiserver.key": 0o600, "sa.key": 0o600, "sa.pub": 0o600,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

// TestBrokenFiles checks that errors name the file and a solution.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		spoil      func(file string) error
		want       []string
	}{
		{"nonsense in a certificate", "ca.crt", overwrite("nonsense"), []string{"ca.crt", "no PEM certificate", "remove"}},
		{"nonsense in a PEM block", "ca.crt", overwrite("-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n"), []string{"ca.crt", "x509", "remove"}},
		{"an empty key", "ca.key", overwrite(""), []string{"ca.key", "no PEM block", "restore"}},
		{"a missing key", "ca.key", os.Remove, []string{"ca.key is missing", "restore it"}},
		{"a key others may read", "ca.key", func(file string) error { return os.Chmod(file, 0o644) }, []string{"ca.key", "0644", "chmod 600"}},
		{"a broken serving key", "apiserver.key", overwrite("nonsense"), []string{"apiserver.key", "no PEM block"}},
		{"a broken key without its certificate", "ca.key", func(file string) error {
			return errors.Join(overwrite("nonsense")(file), os.Remove(filepath.Join(filepath.Dir(file), "ca.crt")))
		}, []string{"ca.key", "no PEM block", "restore"}},
		{"a broken signing key", "sa.key", overwrite("nonsense"), []string{"sa.key", "no PEM block"}},
		{"a missing signing key", "sa.key", os.Remove, []string{"sa.key is missing", "sa.pub", "restore it"}},
		{"a leaf as authority", "ca.crt", copyFrom("apiserver"), []string{"ca.crt", "is not a CA certificate"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" && strings.Contains(tt.name, "others may read") {
				t.Skip("files have no modes here")
			}
			dir := t.TempDir()
			serving(t, open(t, dir), "a")
			if _, err := SigningKey(dir); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(filepath.Join(dir, tt.file)); err != nil {
				t.Fatal(err)
			}
			wantError(t, openAll(dir), nil, tt.want...)
		})
	}
}

// TestMissingCertificate checks that the key of an authority survives the loss of the authority's certificate,
// and that certificates issued before and after the loss are valid with the old and the new certificate.
func TestMissingCertificate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file string
		open       func(dir string) (*Authority, error)
	}{
		{"own authority", "ca", Open},
		{"existing authority", "ca", OpenExisting},
		{"front proxy", "front-proxy-ca", OpenFrontProxy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			create := tt.open
			if tt.file == "ca" {
				create = Open
			}
			before, err := create(dir)
			if err != nil {
				t.Fatal(err)
			}
			issued := []*x509.Certificate{serving(t, before, "a")}
			key, err := os.ReadFile(filepath.Join(dir, tt.file+".key"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, tt.file+".crt")); err != nil {
				t.Fatal(err)
			}
			after, err := tt.open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, tt.file+".key")); err != nil || !bytes.Equal(got, key) {
				t.Errorf("the key was replaced: %v", err)
			}
			if again, err := tt.open(dir); err != nil || !bytes.Equal(again.Bundle(), after.Bundle()) {
				t.Errorf("the new certificate was not stored: %v", err)
			}
			for _, cert := range append(issued, serving(t, after, "a", "b")) {
				for _, a := range []*Authority{before, after} {
					if _, err := cert.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: "a"}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

func openAll(dir string) error {
	a, err := Open(dir)
	if err != nil {
		return err
	}
	if _, err := a.Serving([]string{"a"}); err != nil {
		return err
	}
	_, err = SigningKey(dir)
	return err
}

func overwrite(data string) func(string) error {
	return func(file string) error { return os.WriteFile(file, []byte(data), 0o600) }
}

// copyFrom returns a function that replaces the authority's files with the pair of the given name.
func copyFrom(name string) func(string) error {
	return func(file string) error {
		for _, ext := range []string{".crt", ".key"} {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(file), name+ext))
			if err != nil {
				return err
			}
			if err := os.WriteFile(strings.TrimSuffix(file, ".crt")+ext, data, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
}

func wantError(t *testing.T, err, is error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("%v is not %v", err, is)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not contain %q: %v", text, err)
		}
	}
}

// TestWriteFile checks that readers never see a partial file and that no temporary file is left.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	for _, data := range []string{"first", "second"} {
		if err := WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != data {
			t.Errorf("read %q, %v; want %q", got, err, data)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory contains %v, %v", entries, err)
	}
	if err := WriteFile(filepath.Join(dir, "missing", "a"), nil, 0o600); err == nil {
		t.Error("a file was written into a missing directory")
	}
}

func BenchmarkFirstStart(b *testing.B) {
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "pki")
		if err := openAll(dir); err != nil {
			b.Fatal(err)
		}
	}
}

func TestFrontProxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := OpenFrontProxy(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := proxies.Client("front-proxy-client", "front-proxy-client")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parseCertificate("front-proxy-client.crt", cert)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		by     *Authority
		trusts bool
	}{{"its own authority", proxies, true}, {"that of users", users, false}} {
		_, err := parsed.Verify(x509.VerifyOptions{Roots: tt.by.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if (err == nil) != tt.trusts {
			t.Errorf("verify with %s: error %v, want success: %t", tt.name, err, tt.trusts)
		}
	}
	again, err := OpenFrontProxy(dir)
	if err != nil || !bytes.Equal(again.Bundle(), proxies.Bundle()) {
		t.Errorf("reopening returned another authority: %v", err)
	}
	if kept, _, err := again.Client("front-proxy-client", "front-proxy-client"); err != nil || !bytes.Equal(kept, cert) {
		t.Errorf("the client certificate of the authority was created again: %v", err)
	}
}
