package etcdtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// Files are the paths of PEM files: a CA certificate, and server and client certificates that the CA
// has signed, with their keys.
type Files struct {
	CA, ServerCert, ServerKey, ClientCert, ClientKey string
}

func newFiles(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	f := Files{CA: path("ca.pem"), ServerCert: path("server.pem"), ServerKey: path("server.key"), ClientCert: path("client.pem"), ClientKey: path("client.key")}
	f.write(t)
	return f
}

func (f Files) write(t testing.TB) {
	t.Helper()
	ca := certTemplate("etcd-ca")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	caKey := sign(t, ca, ca, nil, f.CA, "")
	server := certTemplate("etcd")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	sign(t, server, ca, caKey, f.ServerCert, f.ServerKey)
	client := certTemplate("mainstay")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	sign(t, client, ca, caKey, f.ClientCert, f.ClientKey)
}

func certTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// sign writes a certificate with a new key, and returns the key. The certificate is self-signed if parentKey
// is nil. The key is not written if keyFile is "".
func sign(t testing.TB, cert, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, certFile, keyFile string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", der)
	if keyFile != "" {
		raw, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		writePEM(t, keyFile, "PRIVATE KEY", raw)
	}
	return key
}

func writePEM(t testing.TB, path, kind string, raw []byte) {
	t.Helper()
	writeFile(t, path, func(w io.Writer) error { return pem.Encode(w, &pem.Block{Type: kind, Bytes: raw}) })
}
