package request_test

import (
	"net/http/httptest"
	"testing"

	"mainstay.dev/mainstay/internal/request"
)

func TestWithoutPathPrefix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, path, raw string }{
		{"/clusters/a/api/v1?x=%2F", "/api/v1", ""},
		{"/clusters/a", "/", ""},
		{"/clusters/a/", "/", ""},
		{"/clusters/a/api/v1/namespaces/x/pods/y/proxy/z%2Fz", "/api/v1/namespaces/x/pods/y/proxy/z/z", "/api/v1/namespaces/x/pods/y/proxy/z%2Fz"},
		{"/clusters/ab/api", "", ""},
		{"/clusters%2Fa/api", "", ""},
		{"/clusters/a%2Fapi/v1", "", ""},
		{"/clusters/%61/api%2F", "", ""},
		{"/api/clusters/a/", "", ""},
	} {
		r := httptest.NewRequest("GET", tt.url, nil)
		cut, ok := request.WithoutPathPrefix(r, "/clusters/a")
		if !ok {
			if tt.path != "" {
				t.Errorf("%s: rejected", tt.url)
			}
			continue
		}
		if cut.URL.Path != tt.path || cut.URL.RawPath != tt.raw || cut.URL.RawQuery != r.URL.RawQuery {
			t.Errorf("%s: URL %#v, want the path %s", tt.url, cut.URL, tt.path)
		}
		if prefix := request.PathPrefix(cut.Context()); prefix != "/clusters/a" {
			t.Errorf("%s: prefix %q", tt.url, prefix)
		}
		if again, ok := request.WithoutPathPrefix(cut, "/api"); ok && request.PathPrefix(again.Context()) != "/clusters/a/api" {
			t.Errorf("%s: second prefix %q", tt.url, request.PathPrefix(again.Context()))
		}
	}
}
