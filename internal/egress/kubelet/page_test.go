package kubelet_test

import (
	"compress/flate"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/egress/proxy"
)

// forwardPage forwards a request to a server that sends an HTML page with an encoding, and returns the response.
func forwardPage(t *testing.T, method, encoding string, write func(w io.Writer)) *http.Response {
	t.Helper()
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		switch encoding {
		case "gzip":
			packed := gzip.NewWriter(w)
			defer func() { _ = packed.Close() }()
			write(packed)
		case "deflate":
			packed, _ := flate.NewWriter(w, flate.DefaultCompression)
			defer func() { _ = packed.Close() }()
			write(packed)
		default:
			write(w)
		}
	}))
	t.Cleanup(pod.Close)
	to, err := url.Parse(pod.URL + "/page/")
	if err != nil {
		t.Fatal(err)
	}
	client := kubelet.New(kubelet.Config{Proxy: &proxy.Proxy{}, AnyAddress: true})
	t.Cleanup(client.Close)
	front := httptest.NewServer(client.Forward(to, client.Direct(), writeError))
	t.Cleanup(front.Close)
	r, err := http.NewRequestWithContext(t.Context(), method, front.URL+"/proxy/page/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip, deflate, br")
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// TestPages checks that the links in HTML pages are rewritten, and that pages with an unknown encoding are
// forwarded unchanged.
func TestPages(t *testing.T) {
	t.Parallel()
	const page, rewritten = `<a href="/x">x</a>`, `<a href="/proxy/x">x</a>`
	for _, tt := range []struct{ method, encoding, body, wantEncoding string }{
		{"GET", "", rewritten, ""}, {"GET", "gzip", rewritten, ""}, {"GET", "deflate", rewritten, ""}, {"GET", "br", page, "br"},
		{"HEAD", "", "", ""}, {"HEAD", "gzip", "", ""}, {"HEAD", "br", "", "br"},
	} {
		t.Run(tt.method+" "+tt.encoding, func(t *testing.T) {
			t.Parallel()
			response := forwardPage(t, tt.method, tt.encoding, func(w io.Writer) { _, _ = io.WriteString(w, page) })
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != http.StatusOK || string(body) != tt.body || response.Header.Get("Content-Encoding") != tt.wantEncoding {
				t.Errorf("%s %q, encoding %q, error %v; want 200 %q, encoding %q", response.Status, body, response.Header.Get("Content-Encoding"), err, tt.body, tt.wantEncoding)
			}
		})
	}
}

// TestEndlessPages checks that a page without an end does not occupy more and more memory, also if it is
// compressed.
func TestEndlessPages(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"", "gzip", "deflate"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			text := "<p>" + strings.Repeat("x", 1<<20)
			response := forwardPage(t, "GET", encoding, func(w io.Writer) {
				for sent := 0; sent < 1<<26; {
					n, err := io.WriteString(w, text)
					if sent += n; err != nil {
						return
					}
				}
			})
			if body, _ := io.ReadAll(io.LimitReader(response.Body, 1000)); response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "the page is longer than") {
				t.Errorf("%s %s, want 503 with a message about the length of the page", response.Status, body)
			}
		})
	}
}
