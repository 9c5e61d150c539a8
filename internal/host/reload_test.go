package host

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/test/testserver"
)

// countIn returns the number of occurrences of a text in a log.
func countIn(log *testserver.Buffer, text string) int { return strings.Count(log.String(), text) }

func TestFiles(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), &testserver.Buffer{}
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write(t, one, "1")
	write(t, two, "2")
	f := &fileReloader{logger: slog.New(slog.NewTextHandler(log, nil))}
	inForce := ""
	take := func(contents [][]byte) error {
		text := string(bytes.Join(contents, []byte("+")))
		if strings.Contains(text, "bad") {
			return errors.New("it is bad")
		}
		inForce = text
		return nil
	}
	if err := f.add("--missing", take, filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "read --missing: ") {
		t.Errorf("a missing file: %v", err)
	}
	if err := f.add("--files", take, one, two); err != nil || inForce != "1+2" {
		t.Fatalf("add --files: error %v, in force %q, want 1+2", err, inForce)
	}
	for _, step := range []struct {
		name, file, content string // "": removed
		want                string
		changed             bool
		errors              int // number of errors in the log up to this step
	}{
		{"nothing", one, "1", "1+2", false, 0},
		{"a change", one, "11", "11+2", true, 0},
		{"of the same length", one, "12", "12+2", true, 0},
		{"bad", two, "bad", "12+2", false, 1},
		{"bad still", two, "bad", "12+2", false, 1},
		{"good again", two, "3", "12+3", true, 1},
		{"gone", two, "", "12+3", false, 2},
		{"back as it was", two, "3", "12+3", false, 2},
		{"bad once more", two, "bad", "12+3", false, 3},
	} {
		if step.content == "" {
			if err := os.Remove(step.file); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, step.file, step.content)
		}
		changed := f.reload()
		if changed != step.changed || inForce != step.want || countIn(log, "level=ERROR") != step.errors {
			t.Errorf("%s: changed %t, %q in force, %d errors logged; want %t, %q, %d",
				step.name, changed, inForce, countIn(log, "level=ERROR"), step.changed, step.want, step.errors)
		}
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issued contains a CA certificate and certificates that this CA has issued.
type issued struct {
	authority            []byte
	serving, admin, user tls.Certificate
	files                map[string]string // contents by file name
}

func issue(t *testing.T) issued {
	t.Helper()
	dir := t.TempDir()
	authority, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	i := issued{authority: authority.Bundle()}
	if i.serving, err = authority.Serving([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	i.admin, i.user = i.client(t, authority, "root", "system:masters"), i.client(t, authority, "proxy")
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	i.files = map[string]string{"tls.crt": read("apiserver.crt"), "tls.key": read("apiserver.key"), "users.crt": string(i.authority), "proxies.crt": string(i.authority)}
	return i
}

func (i issued) client(t *testing.T, authority *pki.Authority, user string, groups ...string) tls.Certificate {
	t.Helper()
	cert, key, err := authority.Client(user, user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// as returns a client with a client certificate.
func as(t *testing.T, cert tls.Certificate) *http.Client {
	return client(t, func(c *tls.Config) { c.Certificates = []tls.Certificate{cert} })
}

// TestFilesChange checks that changed certificate and CA files are reloaded while the server runs, and that the
// changes also affect open connections.
func TestFilesChange(t *testing.T) {
	t.Parallel()
	before, after := issue(t), issue(t)
	dir, log := t.TempDir(), &testserver.Buffer{}
	file := func(name string) string { return filepath.Join(dir, name) }
	put := func(contents map[string]string) {
		for name, content := range contents {
			write(t, file(name), content)
		}
	}
	put(before.files)
	s := start(t, Config{
		TLS: TLSConfig{CertFile: file("tls.crt"), KeyFile: file("tls.key")},
		Authentication: AuthenticationConfig{
			ClientCAFile:  file("users.crt"),
			RequestHeader: RequestHeaderConfig{ClientCAFile: file("proxies.crt"), UsernameHeaders: []string{"X-Remote-User"}},
		},
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	const path = "/api/v1/namespaces/default"
	// check returns an error if the server does not accept the administrator and the front proxy of theirs, or
	// does not present the serving certificate of theirs.
	check := func(admin *http.Client, theirs issued) error {
		if code, _ := fetch(t, admin, s.URL+path); code != 200 {
			return fmt.Errorf("the user receives code %d", code)
		}
		if code, body := fetch(t, as(t, theirs.user), s.URL+path, "X-Remote-User", "jane"); code != 403 || !strings.Contains(body, "jane") {
			return fmt.Errorf("a user whom a front proxy names receives code %d: %s", code, body)
		}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		if shown := conn.ConnectionState().PeerCertificates[0]; !shown.Equal(theirs.serving.Leaf) {
			return errors.New("the server presents another certificate")
		}
		return nil
	}
	old := as(t, before.admin) // keeps its connection open
	if err := check(old, before); err != nil {
		t.Fatal(err)
	}

	put(after.files)
	testserver.Eventually(t, time.Minute, func() error { return check(as(t, after.admin), after) })
	if code, _ := fetch(t, old, s.URL+path); code != 401 {
		t.Errorf("a user with a certificate of a CA that is no longer configured receives code %d", code)
	}
	testserver.Eventually(t, time.Minute, func() error {
		// The kubeconfig also trusts the new certificate.
		maps := dynamicClient(t, s).Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(clusterAuthName.Namespace)
		published, err := maps.Get(context.Background(), clusterAuthName.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		data, _ := published.Object["data"].(map[string]any)
		for _, key := range []string{"client-ca-file", "requestheader-client-ca-file"} {
			if text, _ := data[key].(string); !strings.Contains(text, string(after.authority)) {
				return fmt.Errorf("%s is not published", key)
			}
		}
		return nil
	})

	put(map[string]string{"tls.crt": before.files["tls.crt"], "users.crt": "nonsense", "proxies.crt": "nonsense"}) // the serving certificate no longer matches its key
	testserver.Eventually(t, time.Minute, func() error {
		if logged := countIn(log, "is invalid"); logged < 3 {
			return fmt.Errorf("the log reports %d invalid files", logged)
		}
		return nil
	})
	if err := check(as(t, after.admin), after); err != nil {
		t.Errorf("the last valid files are not in effect: %v", err)
	}
}
