package request

import (
	"context"
	"net/http"
	"strings"
)

type pathPrefixKey struct{}

// PathPrefix returns the prefix that was removed from the URL path of a request, such as "/clusters/a"; "" if
// there is none. Paths in responses and audit events include it.
func PathPrefix(ctx context.Context) string {
	prefix, _ := ctx.Value(pathPrefixKey{}).(string)
	return prefix
}

// WithPathPrefix returns a context whose PathPrefix is the PathPrefix of ctx followed by prefix. Use it for a
// request after removing prefix from its path.
func WithPathPrefix(ctx context.Context, prefix string) context.Context {
	return context.WithValue(ctx, pathPrefixKey{}, PathPrefix(ctx)+prefix)
}

// WithoutPathPrefix returns a shallow copy of a request, with a prefix removed from its URL path. The prefix
// must not end with a slash, and its segments must not contain characters that are escaped in paths. A path
// that equals the prefix becomes "/". ok is false if the path, or its escaped form, neither equals the prefix
// nor begins with the prefix and a slash.
func WithoutPathPrefix(r *http.Request, prefix string) (cut *http.Request, ok bool) {
	path, ok := cutPathPrefix(r.URL.Path, prefix)
	if !ok {
		return nil, false
	}
	raw := r.URL.RawPath
	if raw != "" {
		if raw, ok = cutPathPrefix(raw, prefix); !ok {
			return nil, false
		}
	}
	cut = r.WithContext(WithPathPrefix(r.Context(), prefix))
	location := *r.URL
	location.Path, location.RawPath = path, raw
	cut.URL = &location
	return cut, true
}

func cutPathPrefix(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return "/", true
	}
	return rest, rest[0] == '/'
}
