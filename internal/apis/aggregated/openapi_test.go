package aggregated

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"mainstay.dev/mainstay/internal/egress"
)

// fixedAddress is a resolver that resolves each Service to the same address.
type fixedAddress string

func (a fixedAddress) Resolve(context.Context, egress.Service) (string, error) { return string(a), nil }

// TestV2Stamp checks that the stamp of a v2 document changes with the document, also if the server sends no ETag.
func TestV2Stamp(t *testing.T) {
	t.Parallel()
	for name, etag := range map[string]string{"with ETag": `"1"`, "without ETag": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changed atomic.Bool
			remote := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tag, text := etag, `{"paths":{"a":{}}}`
				if changed.Load() {
					text = `{"paths":{"b":{}}}`
					if tag != "" {
						tag = `"2"`
					}
				}
				if tag != "" {
					w.Header().Set("Etag", tag)
					if r.Header.Get("If-None-Match") == tag {
						w.WriteHeader(http.StatusNotModified)
						return
					}
				}
				_, _ = io.WriteString(w, text)
			}))
			t.Cleanup(remote.Close)
			s := &Source{config: Config{Resolver: fixedAddress(remote.Listener.Addr().String()), Stopping: t.Context()}, logger: slog.New(slog.DiscardHandler)}
			server := s.newServer(address{service: egress.Service{Namespace: "a", Name: "s", Port: 443}, insecure: true})
			t.Cleanup(server.close)
			d := &server.openAPIV2
			if _, err := d.fetcher(server)(); err != nil {
				t.Fatal(err)
			}
			first := d.refresh(t.Context(), server, true)
			if again := d.refresh(t.Context(), server, true); again != first {
				t.Errorf("stamp %q of an unchanged document, want %q", again, first)
			}
			changed.Store(true)
			if next := d.refresh(t.Context(), server, true); next == first {
				t.Errorf("the stamp of the changed document is the same: %q", next)
			}
		})
	}
}
