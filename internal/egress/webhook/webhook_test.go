package webhook_test

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/egress/webhook"
)

var limits = webhook.Limits{Timeout: 10 * time.Second, MaxResponse: 1 << 10}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func bundle(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func client(t *testing.T, clients *webhook.Clients, target webhook.Target) *webhook.Client {
	t.Helper()
	c, err := clients.Client(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCall(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for header, want := range map[string]string{
			"Accept": "application/json, */*", "Content-Type": "application/json", "User-Agent": "kube-apiserver-admission", "Idempotency-Key": "",
		} {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%s is %q, want %q", header, got, want)
			}
		}
		if r.Method != http.MethodPost || r.Proto != "HTTP/1.1" {
			t.Errorf("request %s %s, want POST HTTP/1.1", r.Method, r.Proto)
		}
		_, _ = io.WriteString(w, r.RequestURI+" "+string(body))
	})
	c := client(t, &webhook.Clients{}, webhook.Target{URL: server.URL + "/a//b/?x=y", CABundle: bundle(server)})
	got, err := c.Call(t.Context(), []byte("question"), limits)
	if want := "/a/b?timeout=10s question"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestHostileWebhooks(t *testing.T) {
	t.Parallel()
	respond := func(code int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string // substring of the error
	}{
		{"500 in JSON", respond(500, "application/json", `{"error":"boom"}`), `an error on the server ("unknown") has prevented the request from succeeding`},
		{"500 as text", respond(500, "text/plain", "boom\n"), `an error on the server ("boom") has prevented the request from succeeding`},
		{"a Status", respond(422, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"not so"}`), "not so"},
		{"404", respond(404, "application/json", ""), "the server could not find the requested resource"},
		{"an empty response", respond(200, "text/html", ""), "0-length response with status code: 200 and content type: text/html"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "the server responded with the status code 302"},
		{"a long response", respond(200, "application/json", strings.Repeat("x", 2<<10)), "the response exceeds the limit of 1024 bytes"},
		{"a long chunked response", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}, "the response exceeds the limit of 1024 bytes"},
		{"a gzip bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		}, "the response exceeds the limit of 1024 bytes"},
		{"long headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 128<<10))
		}, "server response headers exceeded"},
		{"less data than announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		}, "unexpected error when reading response body. Please retry."},
		{"a closed connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"500 with a long text", respond(500, "text/plain", strings.Repeat("x", 1000)), "xxx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, test.handler)
			c := client(t, &webhook.Clients{}, webhook.Target{URL: server.URL, CABundle: bundle(server)})
			got, err := c.Call(t.Context(), []byte("{}"), limits)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q, %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

// TestSlowWebhooks checks that calls with slow headers or bodies end when the timeout expires or
// the context is canceled.
func TestSlowWebhooks(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
		}
		<-release
	})
	t.Cleanup(func() { close(release) }) // before the server is closed
	for _, path := range []string{"/headers", "/body"} {
		c := client(t, &webhook.Clients{}, webhook.Target{URL: server.URL + path, CABundle: bundle(server)})
		if _, err := c.Call(t.Context(), nil, webhook.Limits{Timeout: 50 * time.Millisecond, MaxResponse: 10}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call %s: error %v, want %v", path, err, context.DeadlineExceeded)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Call(gone, nil, limits); !errors.Is(err, context.Canceled) {
			t.Errorf("call %s with a canceled context: %v", path, err)
		}
	}
}

// TestConnections checks that clients of the same target share connections, and that closing the
// last client closes them.
func TestConnections(t *testing.T) {
	t.Parallel()
	var open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	var clients webhook.Clients
	target := webhook.Target{URL: server.URL, CABundle: bundle(server)}
	one, other := client(t, &clients, target), client(t, &clients, target)
	for _, c := range []*webhook.Client{one, other, one} {
		if _, err := c.Call(t.Context(), nil, limits); err != nil {
			t.Fatal(err)
		}
	}
	one.Close()
	one.Close()
	if n := open.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	other.Close()
	for deadline := time.Now().Add(time.Minute); open.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", open.Load())
		}
	}
	if _, err := other.Call(t.Context(), nil, limits); err != nil {
		t.Errorf("call after Close: %v", err)
	}
}

// TestClosedConnection checks that Call retries without an error if the webhook has closed the idle
// connection.
func TestClosedConnection(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 2 {
			panic(http.ErrAbortHandler) // simulates a connection that was closed before the call
		}
		_, _ = io.WriteString(w, "{}")
	})
	c := client(t, &webhook.Clients{}, webhook.Target{URL: server.URL, CABundle: bundle(server)})
	for range 2 {
		if _, err := c.Call(t.Context(), nil, limits); err != nil {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

type resolver map[string]string

func (r resolver) Resolve(_ context.Context, service egress.Service) (string, error) {
	if at, ok := r[service.String()]; ok {
		return at, nil
	}
	return "", errors.New(`service "` + service.Name + `" not found`)
}

func TestServices(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.URL.Path) })
	clients := &webhook.Clients{Resolver: resolver{"a/b:443": server.Listener.Addr().String()}}
	for _, test := range []struct {
		service egress.Service
		want    string
	}{
		// The certificate of the test server is not valid for b.a.svc, so the error contains this name.
		{egress.Service{Namespace: "a", Name: "b", Port: 443}, "b.a.svc"},
		{egress.Service{Namespace: "a", Name: "c", Port: 443}, `service "c" not found`},
	} {
		c := client(t, clients, webhook.Target{Service: &test.service, Path: "/d", CABundle: bundle(server)})
		if _, err := c.Call(t.Context(), nil, limits); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", &test.service, err, test.want)
		}
		if want := "https://" + test.service.Name + ".a.svc:443/d"; c.String() != want {
			t.Errorf("%s, want %s", c, want)
		}
	}
}

// TestCredentials checks that a webhook receives the credentials of the matching kubeconfig user.
func TestCredentials(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+"!")
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("users: [{name: '"+server.Listener.Addr().String()+"', user: {token: t}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := kubeconfig.ReadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	for want, clients := range map[string]*webhook.Clients{"Bearer t!": {Users: users}, "!": {}} {
		c := client(t, clients, webhook.Target{URL: server.URL, CABundle: bundle(server)})
		if got, err := c.Call(t.Context(), nil, limits); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		target webhook.Target
		want   string
	}{
		{webhook.Target{}, "webhook configuration must have either service or URL"},
		{webhook.Target{URL: "https://a b"}, "unparsable URL"},
		{webhook.Target{URL: "https://a", CABundle: []byte("none")}, "no certificate"},
		{webhook.Target{Service: &egress.Service{Namespace: "a", Name: "b", Port: 443}}, "no resolver for services"},
	} {
		if _, err := new(webhook.Clients).Client(test.target); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.target, err, test.want)
		}
	}
	server := serve(t, nil)
	c := client(t, &webhook.Clients{}, webhook.Target{URL: server.URL})
	if _, err := c.Call(t.Context(), nil, limits); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("without the CA bundle: %v", err)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ answer, kind, want string }{
		{`{"kind":"A","apiVersion":"b/v1"}`, "b/v1, Kind=A", ""},
		{"kind: A\napiVersion: b/v1\n", "b/v1, Kind=A", ""},
		{`{}`, "/, Kind=", ""},
		{`hello`, "", "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value"},
		{`{"kind":`, "", "couldn't get version/kind; json parse error: unexpected end of JSON input"},
		{"\x00", "", "couldn't get version/kind; json parse error"},
		{"[" + strings.Repeat(" ", 1<<20), "", "couldn't get version/kind; json parse error"},
	} {
		_, gvk, err := webhook.Document([]byte(test.answer))
		switch {
		case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
			t.Errorf("%.40q: %v, want %q", test.answer, err, test.want)
		case test.want == "" && (err != nil || gvk.String() != test.kind):
			t.Errorf("%.40q: %v, %v; want %q", test.answer, gvk, err, test.kind)
		}
	}
}
