package proxy

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
)

// rawBackend returns the URL of a server that responds to every request with the given bytes.
func rawBackend(t *testing.T, response string) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = conn.Write([]byte(response))
				}
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

// TestInvalidStatus checks that an invalid status code is reported as an error of the backend, for
// requests with and without an upgrade.
func TestInvalidStatus(t *testing.T) {
	t.Parallel()
	for status, valid := range map[string]bool{"000": false, "007": false, "099": false, "200": true, "999": true} {
		backend := rawBackend(t, "HTTP/1.1 "+status+" Odd\r\nContent-Length: 0\r\n\r\n")
		for _, upgrade := range []string{"", "websocket"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if upgrade != "" {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", upgrade)
			}
			w := httptest.NewRecorder()
			var failed error
			(&Proxy{}).Serve(w, r, &Backend{
				Transport: http.DefaultTransport,
				Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(backend) },
				OnError:   func(err error) { failed = err },
			})
			if (failed == nil) != valid {
				t.Errorf("status %s, upgrade %q: error %v, response %d", status, upgrade, failed, w.Code)
			}
		}
	}
}
