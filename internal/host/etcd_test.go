package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
)

// etcdConfig returns the config of a server with an etcd cluster.
func etcdConfig(c *etcdtest.Cluster) Config {
	return Config{Storage: StorageConfig{Etcd: EtcdConfig{Servers: c.URLs(), TLS: EtcdTLSConfig{CAFile: c.Files.CA, CertFile: c.Files.ClientCert, KeyFile: c.Files.ClientKey}}}}
}

func (r *running) do(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.admin.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// TestTwoServersShareEtcd checks that the writes of one server are immediately visible in the lists of another
// server, and arrive in its watches.
func TestTwoServersShareEtcd(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{TLS: true})
	one, two := start(t, withoutControllers(etcdConfig(c))), start(t, withoutControllers(etcdConfig(c)))
	if code, body := fetch(t, two.admin, two.URL+"/readyz?verbose"); code != 200 || !strings.Contains(body, "[+]etcd ok\n[+]etcd-readiness ok\n") {
		t.Errorf("readyz: %d %s", code, body)
	}
	two.do(t, "GET", configMaps, "") // loads the cache of the second server
	watch, err := two.admin.Get(two.URL + configMaps + "?watch=true&resourceVersion=1&timeoutSeconds=60")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	events := json.NewDecoder(watch.Body)
	for _, step := range []struct{ method, path, body, event string }{
		{"POST", "", `{"metadata":{"name":"a"},"data":{"n":"1"}}`, "ADDED"},
		{"PUT", "/a", `{"metadata":{"name":"a"},"data":{"n":"2"}}`, "MODIFIED"},
		{"DELETE", "/a", "", "DELETED"},
	} {
		if code, body := one.do(t, step.method, configMaps+step.path, step.body); code >= 300 {
			t.Fatalf("%s on the first server: %d %s", step.method, code, body)
		}
		_, list := two.do(t, "GET", configMaps, "")
		var listed struct {
			Items []struct{ Data map[string]string }
		}
		if err := json.Unmarshal([]byte(list), &listed); err != nil {
			t.Fatal(err)
		}
		switch {
		case step.method == "DELETE":
			if len(listed.Items) != 0 {
				t.Errorf("after DELETE the other server lists %s", list)
			}
		case len(listed.Items) != 1 || !strings.Contains(step.body, `"n":"`+listed.Items[0].Data["n"]+`"`):
			t.Errorf("after %s the other server lists %s", step.method, list)
		}
		var event struct{ Type string }
		if err := events.Decode(&event); err != nil || event.Type != step.event {
			t.Errorf("after %s the other server's watch returns %q, %v", step.method, event.Type, err)
		}
	}
}

// TestEtcdOutage checks that requests fail quickly during an outage of etcd, and succeed afterwards.
func TestEtcdOutage(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	s := start(t, etcdConfig(c))
	if code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"a"}}`); code != 201 {
		t.Fatalf("unexpected response: %d %s", code, body)
	}
	c.Members[0].Stop()
	for _, request := range [][2]string{{"GET", configMaps + "/a"}, {"GET", configMaps}, {"POST", configMaps}} {
		code, body := s.do(t, request[0], request[1], `{"metadata":{"name":"b"}}`)
		if code != 503 && code != 500 || !strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s without etcd: %d %s", request[0], code, body)
		}
	}
	if code, _ := fetch(t, s.admin, s.URL+"/readyz"); code != 500 {
		t.Errorf("readyz without etcd: %d", code)
	}
	c.Members[0].Restart()
	deadline := time.Now().Add(time.Minute)
	for {
		code, _ := s.do(t, "GET", configMaps+"/a", "")
		ready, _ := fetch(t, s.admin, s.URL+"/readyz")
		if code == 200 && ready == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the outage, the code of GET is %d, and the code of readyz is %d", code, ready)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"c"}}`); code != 201 {
		t.Errorf("create after the outage: %d %s", code, body)
	}
	if code, body := s.do(t, "GET", configMaps, ""); code != 200 || !strings.Contains(body, `"name":"c"`) {
		t.Errorf("list after the outage: %d %s", code, body)
	}
}

func TestEtcdNotThere(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	c.Members[0].Stop()
	config := etcdConfig(c)
	config.Storage.DataDir, config.Listen.SecurePort = t.TempDir(), AnyPort
	config.Storage.InitializationTimeout = 5 * time.Second
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(context.Background())
	if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "use etcd at "+c.URLs()[0]+": no response for 5s") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Run without etcd returned: %v", err)
	}
}

// TestSnapshotPath checks that only administrators can download a snapshot.
func TestSnapshotPath(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{"embedded": {}, "etcd": etcdConfig(etcdtest.Start(t, etcdtest.Options{}))} {
		s := start(t, config)
		if code, body := s.do(t, "POST", configMaps, `{"metadata":{"name":"needle"}}`); code != 201 {
			t.Fatalf("unexpected response: %d %s", code, body)
		}
		if code, _ := fetch(t, client(t, nil), s.URL+SnapshotPath); code != 403 {
			t.Errorf("%s: request without credentials: %d", name, code)
		}
		if code, body := fetch(t, s.admin, s.URL+SnapshotPath); code != 200 || !bytes.Contains([]byte(body), []byte("/registry/configmaps/default/needle")) {
			t.Errorf("%s: %d, %d bytes", name, code, len(body))
		}
		if code, body := s.do(t, "POST", SnapshotPath, ""); code != 405 {
			t.Errorf("%s: POST: %d %s", name, code, body)
		}
	}
}

// TestStoppedWithoutEtcd checks that a server can be stopped while it waits for etcd.
func TestStoppedWithoutEtcd(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	waiting := waitFor{text: "etcd does not respond yet", found: stop}
	s, err := New(Config{
		Storage: StorageConfig{DataDir: t.TempDir(), Etcd: EtcdConfig{Servers: []string{"http://127.0.0.1:1"}}},
		Listen:  ListenConfig{SecurePort: AnyPort},
		Logger:  slog.New(slog.NewTextHandler(&waiting, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(ctx); err != nil {
		t.Errorf("stopped while it waited: %v", err)
	}
}

// waitFor is an io.Writer that calls found when text is written to it.
type waitFor struct {
	text  string
	found func()
}

func (w *waitFor) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.found()
	}
	return len(p), nil
}
