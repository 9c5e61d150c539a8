package local

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// TestSessions checks the lifetime of codes and the maximum number of sessions.
func TestSessions(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := sessions{now: func() time.Time { return now }}
	exchange := func(what, code string, want bool) (token string) {
		t.Helper()
		token, ok := s.exchange(code)
		if ok != want || s.valid(token) != want {
			t.Errorf("%s: exchange returned %q, %v", what, token, ok)
		}
		return token
	}
	exchange("no code", "", false)
	code := s.newCode()
	token := exchange("first use", code, true)
	exchange("second use", code, false)
	exchange("empty code after use", "", false)
	code = s.newCode()
	exchange("wrong code", code+"x", false)
	exchange("after a wrong code", code, false)
	old := s.newCode()
	code = s.newCode()
	if old == code || len(code) < 26 {
		t.Errorf("the codes are %q and %q", old, code)
	}
	exchange("replaced code", old, false)
	code = s.newCode()
	now = now.Add(codeLifetime - time.Nanosecond)
	exchange("just before the expiry", code, true)
	code = s.newCode()
	now = now.Add(codeLifetime)
	exchange("at the expiry", code, false)
	for range maxSessions - 2 {
		exchange("another session", s.newCode(), true)
	}
	if !s.valid(token) {
		t.Errorf("the first of %d sessions is not valid", maxSessions)
	}
	latest := exchange("one session more", s.newCode(), true)
	if s.valid(token) || !s.valid(latest) || len(s.mu.tokens) != maxSessions {
		t.Errorf("there are %d sessions; the oldest is valid: %v", len(s.mu.tokens), s.valid(token))
	}
	for _, wrong := range []string{"", latest[1:], latest + "x", strings.ToLower(latest)} {
		if s.valid(wrong) {
			t.Errorf("the token %q is valid", wrong)
		}
	}
}

// TestSocketOwner checks that ownedByOther finds connections of other users.
func TestSocketOwner(t *testing.T) {
	t.Parallel()
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 20 0 0 10 -1
   2: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 0 0 10 -1
   3: 0100007F:C002 0100007F:1F90 01 00000000:00000000 00:00000000 00000000    33        0 4 1 0 20 0 0 10 -1
   4: 0100007F:C003 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 5 1 0 20 0 0 10 -1
   5: 0100007F:C004 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 6 1 0 20 0 0 10 -1
   6: 0200007F:C004 0100007F:1F90 01 00000000:00000000 00:00000000 00000000    33        0 7 1 0 20 0 0 10 -1
   7: 0000000000000000FFFF00000100007F:C005 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000    33 0 8
   8: malformed
`
	for name, tt := range map[string]struct {
		client uint16
		want   bool
	}{
		"the user": {0xC001, false}, "another user": {0xC002, true}, "root": {0xC003, false}, "two addresses": {0xC004, true},
		"IPv6": {0xC005, true}, "unknown": {0xC006, false},
	} {
		if got := ownedByOther(table, tt.client, 0x1F90, 1000); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if ownedByOther(table, 0xC002, 0x1F91, 1000) || ownedByOther("", 0xC002, 0x1F90, 1000) {
		t.Error("another port or an empty table has an owner")
	}
}

// proxyTest contains a proxy and the API server behind it. The server supports TLS and HTTP/2, and the proxy
// authenticates with the token apiToken.
type proxyTest struct {
	*testing.T
	proxy *Proxy
	url   string
	api   *httptest.Server
	token string // session token
}

const apiToken = "api-secret"

func newProxyTest(t *testing.T, api http.HandlerFunc) *proxyTest {
	t.Helper()
	p := &proxyTest{T: t, api: httptest.NewUnstartedServer(api)}
	p.api.EnableHTTP2 = true
	p.api.StartTLS()
	t.Cleanup(p.api.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.api.Certificate().Raw})
	config := fmt.Sprintf(`{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: %s}}],
  clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]}`, apiToken, p.api.URL+"/base", base64.StdEncoding.EncodeToString(authority))
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	client, base, err := kubeconfig.Client(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	server := httptest.NewUnstartedServer(nil)
	if p.proxy, err = NewProxy(base, client.Transport, server.Listener.Addr()); err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = p.proxy
	server.Start()
	t.Cleanup(server.Close)
	p.url = server.URL
	p.token = p.signIn()
	return p
}

// signIn returns the token of a new session.
func (p *proxyTest) signIn() string {
	p.Helper()
	response, token := p.do("POST", SessionPath, p.proxy.NewCode())
	if response.StatusCode != 200 || response.Header.Get("Cache-Control") != "no-store" {
		p.Fatalf("exchange: %s %v %s", response.Status, response.Header, token)
	}
	return token
}

// request returns a request to the proxy. header contains alternating names and values.
func (p *proxyTest) request(method, path, body string, header ...string) *http.Request {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	return r
}

// send sends a request without following redirects.
func (p *proxyTest) send(r *http.Request) *http.Response {
	p.Helper()
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// do sends a request and reads the response.
func (p *proxyTest) do(method, path, body string, header ...string) (*http.Response, string) {
	p.Helper()
	response := p.send(p.request(method, path, body, header...))
	text, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return response, string(text)
}

// get sends a GET request with the session token.
func (p *proxyTest) get(path string, header ...string) (*http.Response, string) {
	p.Helper()
	return p.do("GET", path, "", append(header, "Authorization", "Bearer "+p.token)...)
}

// TestExchange checks the requests to SessionPath.
func TestExchange(t *testing.T) {
	t.Parallel()
	p := newProxyTest(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the API received %s %s", r.Method, r.URL) })
	code := p.proxy.NewCode()
	for _, tt := range []struct {
		name, method, body string
		header             []string
		code               int
	}{
		{"detection", "GET", "", nil, 200},
		{"detection", "HEAD", "", nil, 200},
		{"another method", "PUT", code, nil, 405},
		{"another page", "POST", code, []string{"Origin", "https://evil.example"}, 403},
		{"form of another page", "POST", code, []string{"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"form without origin", "POST", code, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 403},
		{"another host", "POST", code, []string{"Host", "evil.example"}, 403},
		{"too large", "POST", strings.Repeat("x", maxCode+1), nil, 400},
		{"valid after rejected requests", "POST", code + "\n", nil, 200},
		{"second use", "POST", code, nil, 401},
		{"empty", "POST", "", nil, 401},
	} {
		response, body := p.do(tt.method, SessionPath, tt.body, tt.header...)
		if response.StatusCode != tt.code || strings.Contains(body, code) {
			t.Errorf("%s: response %s %s, want code %d without the sign-in code", tt.name, response.Status, body, tt.code)
		}
		if tt.code != 403 && response.Header.Get("Mainstay-Console") != "local" || tt.code < 400 && response.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", tt.name, response.Header)
		}
	}
	code = p.proxy.NewCode()
	for _, sent := range []string{code[1:], code} {
		if response, _ := p.do("POST", SessionPath, sent); response.StatusCode != 401 {
			t.Errorf("a wrong code and the code after it: %s", response.Status)
		}
	}
}

// TestOrigin checks which Host headers the proxy accepts, and which pages can send requests to it.
func TestOrigin(t *testing.T) {
	t.Parallel()
	p := newProxyTest(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "api") })
	address := strings.TrimPrefix(p.url, "http://")
	_, port, _ := net.SplitHostPort(address)
	for _, tt := range []struct {
		name   string
		code   int
		header []string
	}{
		{"no browser", 200, nil},
		{"own page", 200, []string{"Origin", p.url, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}},
		{"name", 200, []string{"Host", "localhost:" + port, "Origin", "http://localhost:" + port}},
		{"address bar", 200, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}},
		{"link", 200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{"DNS rebinding", 403, []string{"Host", "evil.example:" + port, "Origin", "http://evil.example:" + port, "Sec-Fetch-Site", "same-origin"}},
		{"similar host", 403, []string{"Host", "localhost.evil.example:" + port}},
		{"other port", 403, []string{"Host", "127.0.0.1:1"}},
		{"no port", 403, []string{"Host", "127.0.0.1"}},
		{"other address", 403, []string{"Host", "0.0.0.0:" + port}},
		{"other origin", 403, []string{"Origin", "https://evil.example"}},
		{"other port of this machine", 403, []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}},
		{"other name of this machine", 403, []string{"Origin", "http://localhost:" + port}},
		{"other scheme", 403, []string{"Origin", "https://" + address}},
		{"sandboxed page", 403, []string{"Origin", "null"}},
		{"script of another page", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{"script of another server", 403, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}},
		{"unknown site", 403, []string{"Sec-Fetch-Site", "other"}},
	} {
		for path, want := range map[string]string{"/api": "api", "/console/": "<!doctype html>", "/console/assets/console.css": ""} {
			response, body := p.get(path, tt.header...)
			if response.StatusCode != tt.code || tt.code == 200 && !strings.HasPrefix(body, want) {
				t.Errorf("%s: %s: %s %.40q", tt.name, path, response.Status, body)
			}
			if tt.code == 403 && (response.Header.Get("Access-Control-Allow-Origin") != "" || response.Header.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("%s: %s: headers %v", tt.name, path, response.Header)
			}
		}
	}
}

// TestDefaultPort checks that the proxy accepts Host headers without a port if it listens on port 80.
func TestDefaultPort(t *testing.T) {
	t.Parallel()
	for address, hosts := range map[string][]string{
		"127.0.0.1:80":   {"127.0.0.1", "127.0.0.1:80", "localhost", "localhost:80"},
		"[::1]:80":       {"[::1]", "[::1]:80", "localhost", "localhost:80"},
		"127.0.0.1:8080": {"127.0.0.1:8080", "localhost:8080"},
	} {
		parsed, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := NewProxy("https://127.0.0.1", nil, parsed)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			if !proxy.hosts[host] {
				t.Errorf("%s: %s is rejected", address, host)
			}
		}
		if len(proxy.hosts) != len(hosts) {
			t.Errorf("%s: the hosts are %v", address, proxy.hosts)
		}
	}
}

// TestAuthentication checks that the API receives only requests with a session token.
func TestAuthentication(t *testing.T) {
	t.Parallel()
	var received atomic.Int32
	p := newProxyTest(t, func(http.ResponseWriter, *http.Request) { received.Add(1) })
	encoded := base64.RawURLEncoding.EncodeToString([]byte(p.token))
	for name, header := range map[string][]string{
		"nothing":                  nil,
		"wrong token":              {"Authorization", "Bearer " + p.token + "x"},
		"code":                     {"Authorization", "Bearer " + p.proxy.NewCode()},
		"credentials of the API":   {"Authorization", "Bearer " + apiToken},
		"empty token":              {"Authorization", "Bearer "},
		"other scheme":             {"Authorization", "Basic " + p.token},
		"cookie":                   {"Cookie", "token=" + p.token},
		"second header":            {"Authorization", "Bearer x", "Authorization", "Bearer " + p.token},
		"wrong protocol token":     {"Sec-WebSocket-Protocol", "v5.channel.k8s.io, " + tokenProtocol + encoded[1:]},
		"protocol without prefix":  {"Sec-WebSocket-Protocol", encoded},
		"protocol without base64":  {"Sec-WebSocket-Protocol", tokenProtocol + "%"},
		"protocol without content": {"Sec-WebSocket-Protocol", tokenProtocol},
		"page":                     {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Sec-Fetch-Site", "same-origin"},
		"service worker":           {"Service-Worker", "script", "Sec-Fetch-Site", "same-origin"},
	} {
		for _, path := range []string{"/api", "/", "//console/", "/clusters//console/", "/session", "/api/v1/namespaces/x/pods/y/proxy/?token=" + p.token} {
			response, body := p.do("GET", path, "", header...)
			if response.StatusCode != 401 || response.Header.Get("Content-Type") != "text/plain; charset=utf-8" || response.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: GET %s: %s %v %s, want code 401", name, path, response.Status, response.Header, body)
			}
		}
	}
	if response, _ := p.get("/console/../api"); received.Load() != 0 || response.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("the API received %d requests; /console/../api: %v", received.Load(), response.Header)
	}
	if response, _ := p.get("/api"); response.StatusCode != 200 || received.Load() != 1 {
		t.Errorf("a valid session: %s, %d requests", response.Status, received.Load())
	}
}

// TestForwardedRequest checks the request that the API receives.
func TestForwardedRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	p := newProxyTest(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r
		_, _ = w.Write(body)
	})
	response, body := p.do("PATCH", "/api/a%2Fb?x=1&y=%20", "content", "Authorization", "Bearer "+p.token, "Authorization", "Bearer second",
		"Connection", "Authorization, X-Hop, Impersonate-Group", "X-Hop", "1", "Impersonate-Group", "dropped", "Impersonate-User", "jane", "Origin", p.url,
		"Referer", p.url+"/console/", "Cookie", "other=secret", "X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1", "Proxy-Authorization", "Basic x",
		"Sec-WebSocket-Protocol", tokenProtocol+"abc", "Content-Type", "application/merge-patch+json", "Accept", "application/json")
	if response.StatusCode != 200 || body != "content" {
		t.Fatalf("forwarded request: %s %s, want code 200 with the content", response.Status, body)
	}
	if got.Method != "PATCH" || got.RequestURI != "/base/api/a%2Fb?x=1&y=%20" || got.Host != strings.TrimPrefix(p.api.URL, "https://") || got.ProtoMajor != 2 {
		t.Errorf("the API received %s %s %s, host %s", got.Method, got.RequestURI, got.Proto, got.Host)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + apiToken, "Impersonate-User": "jane", "Content-Type": "application/merge-patch+json", "Accept": "application/json",
		"Origin": "", "Referer": "", "Cookie": "", "X-Hop": "", "X-Forwarded-For": "", "Forwarded": "", "Proxy-Authorization": "", "Sec-WebSocket-Protocol": "",
	} {
		if values := strings.Join(got.Header.Values(name), "|"); values != want {
			t.Errorf("%s is %q, want %q", name, values, want)
		}
	}
}

// TestHostileResponse checks that the proxy removes or replaces dangerous headers of a response that a pod
// wrote.
func TestHostileResponse(t *testing.T) {
	t.Parallel()
	const page = "<script>alert(1)</script>"
	p := newProxyTest(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Content-Type": "text/html", "Set-Cookie": "a=b; Path=/", "Clear-Site-Data": `"*"`, "Service-Worker-Allowed": "/", "WWW-Authenticate": "Basic",
			"Refresh": "0; url=https://evil.example", "Link": "</x>; rel=preload", "Content-Security-Policy": "script-src *", "X-Content-Type-Options": "other",
			"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "public, max-age=9", "Mainstay-Revision": "7", "Warning": `299 - "x"`,
		} {
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, page)
	})
	path := "/api/v1/namespaces/x/pods/y/proxy/"
	response, body := p.get(path)
	if body != page {
		t.Errorf("the body is %s", body)
	}
	for name, want := range map[string]string{
		"Set-Cookie": "", "Clear-Site-Data": "", "Service-Worker-Allowed": "", "WWW-Authenticate": "", "Refresh": "", "Link": "",
		"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control": "no-store", "Content-Type": "text/html", "Mainstay-Revision": "7", "Warning": `299 - "x"`,
	} {
		if got := strings.Join(response.Header.Values(name), "|"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if response, body := p.do("GET", path, "", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "same-origin"); response.StatusCode != 401 || strings.Contains(body, "script") {
		t.Errorf("the browser opens the page: %s %s", response.Status, body)
	}
}

// TestRejectedCredentials checks that the page can distinguish a response of the API with the code 401 from a
// missing session.
func TestRejectedCredentials(t *testing.T) {
	t.Parallel()
	p := newProxyTest(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Unauthorized", http.StatusUnauthorized) })
	response, body := p.get("/api/v1/pods", "Authorization", "Bearer "+p.signIn())
	if response.StatusCode != http.StatusBadGateway || body != "The server does not accept the credentials of the kubeconfig." {
		t.Errorf("request with rejected credentials: %d %s", response.StatusCode, body)
	}
}

// TestWatch checks that each part of a response is forwarded immediately, and that the API's request ends when
// the client cancels its own.
func TestWatch(t *testing.T) {
	t.Parallel()
	events, ended := make(chan string), make(chan struct{})
	p := newProxyTest(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "application/json")
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case event := <-events:
				_, _ = io.WriteString(w, event+"\n")
			case <-r.Context().Done():
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response := p.send(p.request("GET", "/api/v1/pods?watch=1", "", "Authorization", "Bearer "+p.token).WithContext(ctx))
	lines := bufio.NewReader(response.Body)
	for _, event := range []string{"first", "second"} {
		events <- event
		if line, err := lines.ReadString('\n'); err != nil || line != event+"\n" {
			t.Fatalf("line %q, error %v; want the event %s", line, err, event)
		}
	}
	cancel()
	<-ended
}

// TestUnavailable checks the response if the API server is not running.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	p := newProxyTest(t, nil)
	p.api.Close()
	response, body := p.get("/api")
	if response.StatusCode != 502 || !strings.Contains(body, "the server does not respond") || response.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("request to a closed API server: %s %v %s", response.Status, response.Header, body)
	}
	if strings.Contains(body, apiToken) || strings.Contains(body, p.token) {
		t.Errorf("the response contains a token: %s", body)
	}
	if response, _ := p.do("GET", "/console/", ""); response.StatusCode != 200 {
		t.Errorf("the page: %s", response.Status)
	}
}

// TestWebSocket checks that WebSocket requests reach an API server that supports HTTP/2, and that their session
// tokens do not.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	received := make(chan *http.Request, 10)
	p := newProxyTest(t, func(w http.ResponseWriter, r *http.Request) {
		received <- r
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = stream.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\nSet-Cookie: a=b\r\n\r\n")
		_ = stream.Flush()
		_, _ = io.Copy(conn, stream) // echo
	})
	if _, _ = p.get("/api"); (<-received).ProtoMajor != 2 {
		t.Error("the proxy does not use HTTP/2")
	}
	protocols := "v5.channel.k8s.io, " + tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(p.token)) + ",other"
	upgrade := []string{"Connection", "keep-alive, Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Key", "a2V5", "Sec-WebSocket-Version", "13"}
	for name, header := range map[string][]string{
		"no token":     {"Sec-WebSocket-Protocol", "v5.channel.k8s.io", "Origin", p.url},
		"wrong token":  {"Sec-WebSocket-Protocol", tokenProtocol + "YQ", "Origin", p.url},
		"another page": {"Sec-WebSocket-Protocol", protocols, "Origin", "http://127.0.0.1:1"},
	} {
		if response := p.send(p.request("GET", "/api/exec", "", append(header, upgrade...)...)); response.StatusCode == 101 || len(received) > 0 {
			t.Errorf("%s: response %s, want no upgrade", name, response.Status)
		}
	}
	response := p.send(p.request("GET", "/api/exec", "", append(upgrade, "Sec-WebSocket-Protocol", protocols, "Origin", p.url, "Cookie", "other=secret")...))
	if response.StatusCode != 101 || response.Header.Get("Sec-WebSocket-Protocol") != "v5.channel.k8s.io" || response.Header.Get("Set-Cookie") != "" {
		t.Fatalf("upgrade: %s %v", response.Status, response.Header)
	}
	r := <-received
	for name, want := range map[string]string{
		"Authorization": "Bearer " + apiToken, "Sec-WebSocket-Protocol": "v5.channel.k8s.io, other", "Sec-WebSocket-Key": "a2V5", "Origin": "", "Cookie": "",
	} {
		if got := strings.Join(r.Header.Values(name), "|"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if text := fmt.Sprint(r.Header); r.ProtoMajor != 1 || strings.Contains(text, tokenProtocol) || strings.Contains(text, p.token) {
		t.Errorf("the API received %s %s", r.Proto, text)
	}
	conn, ok := response.Body.(io.ReadWriter)
	if !ok {
		t.Fatalf("the body is %T", response.Body)
	}
	if _, err := io.WriteString(conn, "message"); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, len("message"))
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "message" {
		t.Errorf("echo %q, error %v; want message", echo, err)
	}
}

// TestOtherUpgrade checks that an upgrade to another protocol is not forwarded over HTTP/2.
func TestOtherUpgrade(t *testing.T) {
	t.Parallel()
	p := newProxyTest(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	if response, _ := p.get("/api/exec", "Connection", "Upgrade", "Upgrade", "SPDY/3.1"); response.StatusCode != 502 {
		t.Errorf("SPDY: %s", response.Status)
	}
}
