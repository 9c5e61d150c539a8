package http2

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// refused is the body of an error response.
const refused = `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`

func refuseAll(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, refused)
}

// earlySizes maps sizes of request bodies to the number of requests that have this size.
func earlySizes() map[int]int { return map[int]int{1 << 10: 60, 100 << 10: 40, 3 << 20: 10} }

// TestEarlyResponseNetHTTP checks that net/http's client receives every response that is sent before the
// server has read the body, on one connection.
func TestEarlyResponseNetHTTP(t *testing.T) {
	t.Parallel()
	s := startServer(t, http.HandlerFunc(refuseAll), true, nil)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.tls.RootCAs}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	for name, client := range map[string]*http.Client{"net/http": {Transport: transport}, "x/net": s.client(t)} {
		for size, times := range earlySizes() {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				t.Parallel()
				body := make([]byte, size)
				var clients sync.WaitGroup
				for range 4 {
					clients.Go(func() {
						for range times {
							resp, err := client.Post(s.url, "application/json", bytes.NewReader(body))
							if err != nil {
								t.Error(err)
								return
							}
							got, err := io.ReadAll(resp.Body)
							_ = resp.Body.Close()
							if resp.StatusCode != http.StatusForbidden || err != nil || string(got) != refused {
								t.Errorf("got %s %q (%v)", resp.Status, got, err)
							}
						}
					})
				}
				clients.Wait()
			})
		}
	}
}

// TestEarlyResponseCurl is like TestEarlyResponseNetHTTP, but uses curl. Up to version 7.88, curl loses a
// response if the stream is reset immediately afterwards.
func TestEarlyResponseCurl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed on this machine")
	}
	if version, err := exec.Command(curl, "--version").Output(); err != nil || !bytes.Contains(version, []byte("HTTP2")) {
		t.Skipf("this curl does not support HTTP/2: %s (%v)", version, err)
	}
	s := startServer(t, http.HandlerFunc(refuseAll), true, nil)
	for size, times := range earlySizes() {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			for range times {
				start := time.Now()
				cmd := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--insecure", "--http2",
					"--max-time", "60", "--data-binary", "@-", "--write-out", "%{http_version} %{http_code}", s.url)
				cmd.Stdin = strings.NewReader(strings.Repeat("x", size))
				out, err := cmd.CombinedOutput()
				if err != nil || string(out) != refused+"2 403" {
					t.Errorf("after %v: %v: %s", time.Since(start), err, out)
				}
			}
		})
	}
}
