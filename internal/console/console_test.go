package console

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// notConsole is the response body of the next handler.
const notConsole = "next"

func newTestHandler() http.Handler {
	return Handler(nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, notConsole) }))
}

// request sends a request to a handler and returns the response. header contains names and values in turn.
func request(handler http.Handler, method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func file(t *testing.T, name string) string {
	t.Helper()
	compressed, err := files.ReadFile("assets/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	return string(decompress(compressed))
}

// TestHeaders checks the response headers and the body for each file.
func TestHeaders(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	for path, tt := range map[string]struct{ file, contentType string }{
		"/console/":                  {"index.html", "text/html; charset=utf-8"},
		"/console/objects/core/pods": {"index.html", "text/html; charset=utf-8"},
		"/console/assets/console.js": {"console.js", "text/javascript; charset=utf-8"},
		AssetPath + "console.css":    {"console.css", "text/css; charset=utf-8"},
		AssetPath + "icon.svg":       {"icon.svg", "image/svg+xml"},
	} {
		response := request(handler, "GET", path)
		if body := read(t, response.Body); response.StatusCode != 200 || body != file(t, tt.file) {
			t.Errorf("%s: code %d, %d bytes", path, response.StatusCode, len(body))
		}
		for name, want := range map[string]string{
			"Content-Type": tt.contentType, "Content-Encoding": "", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-cache", "Vary": "Accept-Encoding",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		policy := response.Header.Get("Content-Security-Policy")
		for _, directive := range []string{"default-src 'none'", "script-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, directive) {
				t.Errorf("%s: the policy %q has no %s", path, policy, directive)
			}
		}
		if strings.Contains(policy, "unsafe-") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
}

// TestConditionalRequest checks the response to If-None-Match.
func TestConditionalRequest(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	etag := request(handler, "GET", "/console/").Header.Get("ETag")
	if !strings.HasPrefix(etag, `W/"`) || etag != request(handler, "GET", "/clusters/a/console/", "Accept-Encoding", "gzip").Header.Get("ETag") {
		t.Errorf("the ETag is %s; want the same weak ETag for both encodings", etag)
	}
	if etag == request(handler, "GET", AssetPath+"console.js").Header.Get("ETag") {
		t.Error("two files have the same ETag")
	}
	for value, code := range map[string]int{etag: 304, strings.TrimPrefix(etag, "W/"): 304, `"x", ` + etag: 304, `"x"`: 200, "": 200, `W/""`: 200} {
		response := request(handler, "GET", "/console/", "If-None-Match", value)
		if response.StatusCode != code {
			t.Errorf("If-None-Match %s: code %d, want %d", value, response.StatusCode, code)
		}
		if code == 304 && (read(t, response.Body) != "" || response.Header.Get("ETag") != etag || response.Header.Get("Vary") == "") {
			t.Errorf("If-None-Match %s: %v", value, response.Header)
		}
	}
}

// TestCompression checks that files are served with gzip only if the Accept-Encoding header accepts it.
func TestCompression(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "br, gzip": true, "gzip, deflate, br, zstd": true, "gzip;q=0.5": true, "gzip ; q=1": true,
		"gzip;q=0": false, "gzip; q=0": false, "gzip;q=0.000": false, "gzip;q=x": false, "x-gzip": false, "identity": false, "br": false,
	} {
		response := request(handler, "GET", AssetPath+"console.js", "Accept-Encoding", accept)
		if got := response.Header.Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("Accept-Encoding %q: gzip is %v, want %v", accept, got, want)
			continue
		}
		if response.ContentLength <= 0 {
			t.Errorf("Accept-Encoding %q: the length is %d", accept, response.ContentLength)
		}
		body := io.Reader(response.Body)
		if want {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		if read(t, body) != file(t, "console.js") {
			t.Errorf("Accept-Encoding %q: the body is not the file", accept)
		}
	}
}

// TestMethods checks that only GET and HEAD are supported.
func TestMethods(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	for _, path := range []string{"/console", "/console/", AssetPath + "console.js", AssetPath + "none", "/at/now/console/"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			if response := request(handler, method, path); response.StatusCode != 405 || response.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: code %d, Allow %q", method, path, response.StatusCode, response.Header.Get("Allow"))
			}
		}
	}
	head, get := request(handler, "HEAD", "/console/"), request(handler, "GET", "/console/")
	if body := read(t, head.Body); body != "" || head.StatusCode != 200 || head.Header.Get("Content-Length") != get.Header.Get("Content-Length") {
		t.Errorf("HEAD: code %d, %v, body %q", head.StatusCode, head.Header, body)
	}
}

// TestPaths checks which paths belong to the console, and that its redirects stay on this server.
func TestPaths(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	const page, none = "<!doctype html>", "404 page not found"
	for path, want := range map[string]string{ // values that begin with "/" are targets of redirects
		"/console/":                              page,
		"/console/objects":                       page,
		"/console//x":                            page,
		"/console/../api":                        page,
		"/console/%2e%2e/api":                    page,
		"/clusters/a/console/":                   page,
		"/clusters/a/at/rv/1/console/map":        page,
		"/at/2026-11-28T10:00:00Z/console/":      page,
		"/at/rv/1/console/":                      page,
		"/console%2F":                            page, // the same decoded path as /console/
		"/clusters/a/console/assets/console.js":  page, // files are only below AssetPath
		"/console/assets/none":                   none,
		"/console/assets/":                       none,
		"/console/assets/../index.html":          none,
		"/console/assets/index.html":             none,
		"/console":                               "/console/",
		"/clusters/a/console":                    "/clusters/a/console/",
		"/clusters/a%20b/console":                "/clusters/a%20b/console/",
		"/clusters/a%3Fb/console":                "/clusters/a%3Fb/console/",
		"/at/rv/1/console":                       "/at/rv/1/console/",
		"/clusters/../console":                   "/console/",
		`/clusters/\evil.example/console`:        "/clusters/%5Cevil.example/console/",
		"/clusters/%0d%0aLocation:%20x/console":  "/clusters/%0d%0aLocation:%20x/console/",
		"//console":                              notConsole,
		"//console/":                             notConsole,
		"//evil.example/console":                 notConsole,
		"/clusters//console/":                    notConsole,
		"/clusters/a/b/console/":                 notConsole,
		"/clusters/a%2Fb/console/":               notConsole,
		"/clusters/a//console/":                  notConsole,
		"/at/console":                            notConsole,
		"/at//console":                           notConsole,
		"/at/rv/1/clusters/a/console/":           notConsole,
		"/":                                      notConsole,
		"/api/console/":                          notConsole,
		"/api/../console/":                       notConsole,
		"/consoles":                              notConsole,
		"/console.js":                            notConsole,
		"/Console/":                              notConsole,
		"/clusters/a/api":                        notConsole,
		"/clusters/console":                      notConsole,
		"/api/v1/namespaces/x/services/y/proxy/": notConsole,
		"/api/v1/namespaces/x/services/y/proxy/console/":             notConsole,
		"/clusters/a/api/v1/namespaces/x/pods/y/proxy/console/":      notConsole,
		"/at/rv/1/api/v1/namespaces/x/services/y/proxy/at/x/console": notConsole,
	} {
		response := request(handler, "GET", "http://localhost"+path)
		got := read(t, response.Body)
		if location := response.Header.Get("Location"); location != "" {
			got = location
		}
		if strings.HasPrefix(want, "/") && (got != want || response.StatusCode != 302) || !strings.HasPrefix(got, want) {
			t.Errorf("%s: code %d, %.40q, want %q", path, response.StatusCode, got, want)
		}
		if want == none && response.StatusCode != 404 {
			t.Errorf("%s: code %d, want 404", path, response.StatusCode)
		}
	}
}

// TestReferences checks that the page loads only files of this package.
func TestReferences(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	index, css := file(t, "index.html"), file(t, "console.css")
	references := regexp.MustCompile(`(?:src|href|srcset|action|data)\s*=\s*["']?([^"'\s>]+)`).FindAllStringSubmatch(index, -1)
	if len(references) < 3 {
		t.Errorf("index.html has the references %v", references)
	}
	for _, match := range references {
		if name, ok := strings.CutPrefix(match[1], AssetPath); !ok || request(handler, "GET", AssetPath+name).StatusCode != 200 {
			t.Errorf("index.html refers to %s", match[1])
		}
	}
	for _, inline := range []string{"<style", "style=", "onload=", "onerror=", "javascript:", "<base"} {
		if strings.Contains(index, inline) {
			t.Errorf("index.html contains %s, which the policy blocks", inline)
		}
	}
	if strings.Count(index, "<script") != strings.Count(index, " src=") {
		t.Error("index.html contains an inline script, which the policy blocks")
	}
	for name, text := range map[string]string{"index.html": index, "console.css": css, "icon.svg": strings.ReplaceAll(file(t, "icon.svg"), "http://www.w3.org/2000/svg", "")} {
		if external := regexp.MustCompile(`(?i)(https?:|@import|url\(\s*["']?//|=["']//)`).FindString(text); external != "" {
			t.Errorf("%s contains %s", name, external)
		}
	}
}

// TestFiles checks that all files are served, and that their total size in the binary is limited.
func TestFiles(t *testing.T) {
	t.Parallel()
	handler := newTestHandler()
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
		name := strings.TrimSuffix(entry.Name(), ".gz")
		if name != "index.html" && request(handler, "GET", AssetPath+name).StatusCode != 200 {
			t.Errorf("%s is not served", name)
		}
	}
	if size > 2<<20 {
		t.Errorf("the files have %d bytes; the maximum is 2 MiB", size)
	}
}

// TestProviders checks the configuration of the sign-in, and that the policy permits requests only to the token
// endpoints. Both must change with the providers.
func TestProviders(t *testing.T) {
	t.Parallel()
	var current []Provider
	handler := Handler(func() []Provider { return current }, http.NotFoundHandler())
	login := Provider{Issuer: "https://login.example.com/realms/x", ClientID: "console", AuthorizationEndpoint: "https://login.example.com/auth", TokenEndpoint: "https://token.example.com:8443/token", Scopes: []string{"email"}}
	const loginJSON = `{"issuer":"https://login.example.com/realms/x","clientID":"console","authorizationEndpoint":"https://login.example.com/auth","tokenEndpoint":"https://token.example.com:8443/token","scopes":["email"]}`
	other := Provider{Issuer: "https://other.example.com", ClientID: "a", AuthorizationEndpoint: "https://other.example.com/auth", TokenEndpoint: "https://token.example.com:8443/other"}
	const otherJSON = `{"issuer":"https://other.example.com","clientID":"a","authorizationEndpoint":"https://other.example.com/auth","tokenEndpoint":"https://token.example.com:8443/other"}`
	withToken := func(endpoint string) Provider { return Provider{Issuer: "https://x", TokenEndpoint: endpoint} }
	etags := map[string]string{} // by policy
	for _, tt := range []struct {
		name          string
		providers     []Provider
		body, connect string
	}{
		{"no provider", nil, `{"providers":[]}`, "connect-src 'self';"},
		{"a provider", []Provider{login}, `{"providers":[` + loginJSON + `]}`, "connect-src 'self' https://token.example.com:8443;"},
		{"two providers with an origin", []Provider{login, other}, `{"providers":[` + loginJSON + `,` + otherJSON + `]}`, "connect-src 'self' https://token.example.com:8443;"},
		{"unusable origins", []Provider{
			withToken(""), withToken("%"), withToken("http://a.example"), withToken("javascript:alert(1)"), withToken("data:text/html,x"), withToken("//a.example"), withToken("https:"), withToken("https:a.example"),
			withToken("https://*"), withToken("https://*.example"), withToken("https://a;script-src"), withToken("https://a,b"), withToken("https://'self'"), withToken("https://a.example:*"), withToken("https://[::1]"),
			withToken("https://ä.example"), withToken("https://a%20b/"), withToken("https://a.example\n/"),
		}, `{"providers":[]}`, "connect-src 'self';"},
		{"a user and a path", []Provider{other, {TokenEndpoint: "https://user:secret@b.example/;script-src *?#x"}}, "", "connect-src 'self' https://token.example.com:8443 https://b.example;"},
	} {
		current = tt.providers
		response := request(handler, "GET", configPath)
		if body := strings.TrimSpace(read(t, response.Body)); tt.body != "" && body != tt.body || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: the configuration is %s", tt.name, body)
		}
		response = request(handler, "GET", "/console/")
		policy, etag := response.Header.Get("Content-Security-Policy"), response.Header.Get("ETag")
		if !strings.Contains(policy, tt.connect) || strings.Count(policy, ";") != 8 {
			t.Errorf("%s: the policy is %s", tt.name, policy)
		}
		etags[policy] = etag
		for other, same := range etags {
			if (other == policy) != (same == etag) {
				t.Errorf("%s: the ETag is %s for %s and %s for %s", tt.name, etag, policy, same, other)
			}
		}
	}
}
