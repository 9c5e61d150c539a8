package fleet

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/request"
)

// FuzzPath checks that a path belongs to exactly one control plane, even if it is escaped, and that removing
// the prefix leaves exactly the rest of the client's path.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/clusters/a/api", "/clusters/a", "/clusters//a/api", "/clusters/%61/api", "/clusters/a%2Fapi", "/clusters%2Fa/api", "/clusters/a/../b/api",
		"/clusters/a//clusters/b/api", "/clusters/", "/clusters", "/api/clusters/a", "/clusters/a;b/api", "/clusters/ä/api", "//clusters/a/api",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		location, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := &http.Request{URL: location}
		name := nameOf(location.Path)
		if (name != "") != (strings.HasPrefix(location.Path, clustersPrefix) && len(location.Path) > len(clustersPrefix) && location.Path[len(clustersPrefix)] != '/') {
			t.Fatalf("%q: name %q", path, name)
		}
		if name == "" {
			return
		}
		cut, ok := request.WithoutPathPrefix(r, pathPrefix(name))
		if !ok {
			if location.RawPath == "" {
				t.Fatalf("%q was rejected", path)
			}
			return
		}
		if got := request.PathPrefix(cut.Context()); got != pathPrefix(name) || nameOf(got) != name || strings.Contains(name, "/") {
			t.Fatalf("%q: prefix %q", path, got)
		}
		whole := pathPrefix(name) + cut.URL.Path
		if whole != location.Path && whole != location.Path+"/" {
			t.Fatalf("%q: %q and %q", path, pathPrefix(name), cut.URL.Path)
		}
	})
}
