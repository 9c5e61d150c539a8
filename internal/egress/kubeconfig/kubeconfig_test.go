package kubeconfig

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// writeTestKubeconfig writes a kubeconfig and returns its path. cluster and user contain the fields of the
// cluster and user of the current context, in YAML flow style.
func writeTestKubeconfig(t *testing.T, dir, cluster, user string) string {
	t.Helper()
	path := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: b
contexts:
- {name: a, context: {cluster: other, user: other}}
- {name: b, context: {cluster: c, user: u}}
clusters:
- {name: other, cluster: {server: "https://192.0.2.1"}}
- {name: c, cluster: {%s}}
users:
- {name: other, user: {exec: {command: "false"}}}
- {name: u, user: {%s}}
`, cluster, user)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClient(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.Path, " ", r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	data := base64.StdEncoding.EncodeToString(authority)
	at := fmt.Sprintf("server: %q", server.URL+"/")
	for name, tt := range map[string]struct{ cluster, user, want, fault string }{
		"a token":                       {at + `, certificate-authority-data: ` + data, `token: abc`, "/path Bearer abc", ""},
		"relative file names":           {at + `, certificate-authority: ca.pem`, `tokenFile: token`, "/path Bearer def", ""},
		"without verification":          {at + `, insecure-skip-tls-verify: true`, ``, "/path ", ""},
		"an unknown authority":          {at, ``, "", "certificate signed by unknown authority"},
		"another server name":           {at + `, tls-server-name: other, certificate-authority-data: ` + data, ``, "", "not other"},
		"no certificate":                {at + `, certificate-authority-data: ` + base64.StdEncoding.EncodeToString([]byte("x")), ``, "", "contains no certificate"},
		"no file":                       {at + `, certificate-authority: none.pem`, ``, "", "none.pem: no such file"},
		"no server":                     {``, ``, "", `the server "" is not a URL`},
		"a plugin":                      {at, `exec: {command: x}`, "", `user "u": exec is not supported here`},
		"a password":                    {at + `, insecure-skip-tls-verify: true`, `username: joe, password: secret`, "/path Basic am9lOnNlY3JldA==", ""},
		"a key without its certificate": {at, `client-key-data: ` + data, "", "the client certificate: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range map[string][]byte{"ca.pem": authority, "token": []byte("def\n")} {
				if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := getWith(writeTestKubeconfig(t, dir, tt.cluster, tt.user))
			if tt.fault == "" && (err != nil || got != tt.want) {
				t.Errorf("%q, %v; want %q", got, err, tt.want)
			}
			if tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("%q, %v; want an error that contains %q", got, err, tt.fault)
			}
		})
	}
}

// TestContextWithoutUser checks that a context need not have a user. Many kubeconfigs of audit webhooks have none.
func TestContextWithoutUser(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %q", r.URL.Path, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	for name, tt := range map[string]struct{ context, want, fault string }{
		"no user":       {`{cluster: c}`, `/path ""`, ""},
		"an empty user": {`{cluster: c, user: ""}`, `/path ""`, ""},
		"unknown user":  {`{cluster: c, user: u}`, "", `user "u" of context "a" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Sprintf("current-context: a\ncontexts: [{name: a, context: %s}]\nclusters: [{name: c, cluster: {server: %q}}]\nusers: []\n", tt.context, server.URL)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := getWith(path)
			if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q, %v; want %q and an error that contains %q", got, err, tt.want, tt.fault)
			}
		})
	}
}

// getWith requests /path with the client of a kubeconfig, and returns the body of the response.
func getWith(kubeconfig string) (string, error) {
	client, at, err := Client(kubeconfig, nil)
	if err != nil {
		return "", err
	}
	return body(client.Get(at + "/path"))
}

// body returns the body of a response.
func body(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// TestRotation checks that a client uses rotated tokens and client certificates.
func TestRotation(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close") // each request needs a new connection
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName, " ", r.Header.Get("Authorization"))
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(file string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func(name string) {
		t.Helper()
		certificate, key := selfSigned(t, name)
		write("cert", certificate)
		write("key", key)
		write("token", []byte(name+"\n"))
	}
	rotate("first")
	path := writeTestKubeconfig(t, dir, fmt.Sprintf(`server: %q, insecure-skip-tls-verify: true`, server.URL),
		"token: initial, tokenFile: token, client-certificate: cert, client-key: key")
	client, at, err := Client(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "first Bearer first"},
		{func() { rotate("second") }, "second Bearer second"},
		{func() { write("key", nil) }, "first Bearer second"}, // the files of the certificate do not match
		{func() { write("token", nil) }, "first Bearer initial"},
	} {
		step.change()
		got, err := body(client.Get(at))
		if err != nil || got != step.want {
			t.Errorf("%q, %v; want %q", got, err, step.want)
		}
	}
}

// selfSigned returns a certificate with a common name, and its key, in PEM.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// TestIdleConnections checks that idle connections are closed after some time, because the owner of a client
// does not close them, for example when the authorization configuration is reloaded.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	path := writeTestKubeconfig(t, t.TempDir(), `server: "http://127.0.0.1:1"`, "token: a")
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		client, at, err := Client(path, func(context.Context, string, string) (net.Conn, error) {
			conn, server := net.Pipe()
			go func() {
				defer close(closed)
				reader := bufio.NewReader(server)
				for {
					if _, err := http.ReadRequest(reader); err != nil {
						return
					}
					fmt.Fprint(server, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			}()
			return conn, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := body(client.Get(at)); err != nil {
			t.Error(err)
		}
		<-closed // synctest would report a deadlock if the connection stayed open
	})
}
