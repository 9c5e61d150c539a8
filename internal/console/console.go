// Package console serves the web console, which consists of static files. In the browser, they read the API
// with the credentials of the user. Their source is in the directory console at the root of the module.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets
var files embed.FS

// AssetPath is the prefix of the paths of scripts and styles.
const AssetPath = "/console/assets/"

// configPath is the path of the JSON document that configures the sign-in.
const configPath = "/console/config.json"

// Provider describes an OpenID Connect provider for the sign-in. The page uses the authorization code flow as a
// client without a secret, with the redirect URI /console/callback. The page itself sends requests to the token
// endpoint, which must be an https URL.
type Provider struct {
	Issuer                string   `json:"issuer"`
	ClientID              string   `json:"clientID"`
	AuthorizationEndpoint string   `json:"authorizationEndpoint"`
	TokenEndpoint         string   `json:"tokenEndpoint"`
	Scopes                []string `json:"scopes,omitempty"`
}

// plainHost matches hosts that have no special meaning in a Content-Security-Policy. A URL can also contain
// hosts such as "*" and "a;script-src", which do.
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// origin returns the origin of the token endpoint, or "" if the endpoint is not an https URL with a host that
// matches plainHost.
func (p *Provider) origin() string {
	endpoint, err := url.Parse(p.TokenEndpoint)
	if err != nil || endpoint.Scheme != "https" || !plainHost.MatchString(endpoint.Host) {
		return ""
	}
	return "https://" + endpoint.Host
}

// policy returns the Content-Security-Policy. The page can load and execute only files of its own server. It
// can send requests only to its own server and to the token endpoints of providers. Other pages cannot embed
// it.
func policy(providers []Provider) string {
	origins := []string{"'self'"}
	for i := range providers {
		if origin := providers[i].origin(); origin != "" && !slices.Contains(origins, origin) {
			origins = append(origins, origin)
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src " + strings.Join(origins, " ") + "; img-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
}

// pages matches the paths of the page, which are below /console/. The path can begin with a prefix that selects
// a control plane, a point in time, or both. The page itself parses the rest of the path.
var pages = regexp.MustCompile(`^(/clusters/[^/]+)?(/at/(rv/)?[^/]+)?/console(/|$)`)

// Handler returns a handler that serves the console without authentication, and passes all other requests to
// next. Its responses do not depend on whether the control plane or the point in time in the path exists.
// providers returns the providers that the page currently offers; it must not block and must be safe for
// concurrent use. If it is nil, the page offers no providers.
func Handler(providers func() []Provider, next http.Handler) http.Handler {
	if providers == nil {
		providers = func() []Provider { return nil }
	}
	page := sync.OnceValue(func() *asset { return newAsset("index.html", "text/html; charset=utf-8") })
	assets := sync.OnceValue(func() map[string]*asset {
		return map[string]*asset{
			"console.js":  newAsset("console.js", "text/javascript; charset=utf-8"),
			"console.css": newAsset("console.css", "text/css; charset=utf-8"),
			"icon.svg":    newAsset("icon.svg", "image/svg+xml"),
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prefix := pages.FindString(r.URL.Path)
		switch name, isAsset := strings.CutPrefix(r.URL.Path, AssetPath); {
		case prefix == "":
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the console supports only GET and HEAD", http.StatusMethodNotAllowed)
		case !strings.HasSuffix(prefix, "/"):
			// The browser would cache a permanent redirect and apply it to later servers at the same address.
			http.Redirect(w, r, r.URL.EscapedPath()+"/", http.StatusFound)
		case r.URL.Path == configPath:
			serveConfig(w, providers())
		case !isAsset:
			page().serve(w, r, policy(providers()))
		case assets()[name] == nil:
			http.NotFound(w, r)
		default:
			assets()[name].serve(w, r, policy(nil))
		}
	})
}

// serveConfig serves the configuration of the sign-in. It omits providers to which the page cannot send
// requests because of the policy.
func serveConfig(w http.ResponseWriter, providers []Provider) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	usable := []Provider{} // [] in JSON, not null
	for _, p := range providers {
		if p.origin() != "" {
			usable = append(usable, p)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string][]Provider{"providers": usable}) // an error means that the client has disconnected
}

// asset is an embedded file that is compressed with gzip.
type asset struct {
	contentType string
	sum         [sha256.Size]byte
	compressed  []byte
	// plain returns the decompressed file. It decompresses the file on the first call.
	plain func() []byte
}

// newAsset reads an embedded file. It panics if the file does not exist, because this is a bug in this package.
func newAsset(name, contentType string) *asset {
	compressed, err := files.ReadFile("assets/" + name + ".gz")
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err))
	}
	return &asset{contentType: contentType, sum: sha256.Sum256(compressed), compressed: compressed, plain: sync.OnceValue(func() []byte { return decompress(compressed) })}
}

// decompress panics if data is damaged, because data is always an embedded file.
func decompress(data []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err))
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err))
	}
	return plain
}

// etag returns the ETag of the file when it is served with the given policy. The ETag depends on the policy,
// because the policy changes with the providers. It is a weak ETag, because the compressed and the plain form
// share it.
func (a *asset) etag(policy string) string {
	sum := sha256.Sum256(append(a.sum[:], policy...))
	return `W/"` + hex.EncodeToString(sum[:16]) + `"`
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request, policy string) {
	header, etag := w.Header(), a.etag(policy)
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache") // browsers revalidate their copies, so that they notice an upgrade of the server
	header.Set("Vary", "Accept-Encoding")
	header.Set("ETag", etag)
	if strings.Contains(r.Header.Get("If-None-Match"), strings.TrimPrefix(etag, "W/")) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", a.contentType)
	body := a.compressed
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
	} else {
		body = a.plain()
	}
	header.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client has disconnected
	}
}

func acceptsGzip(r *http.Request) bool {
	for value := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.ReplaceAll(value, " ", ""), ";")
		if coding == "gzip" {
			quality, err := strconv.ParseFloat(strings.TrimPrefix(weight, "q="), 64)
			return weight == "" || err == nil && quality > 0
		}
	}
	return false
}
