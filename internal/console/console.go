// Package console serves the web console: static files that read the API with the credentials of their user.
// The directory console at the root of the module contains their source.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets
var files embed.FS

// AssetPath is the prefix of the paths of scripts and styles.
const AssetPath = "/console/assets/"

// configPath is the path of the configuration of the sign-in, in JSON.
const configPath = "/console/config.json"

// Config configures the sign-in with OpenID Connect: the issuer of ID tokens, and the ID of a client without a secret whose
// redirect URI is /console/callback. Without an issuer, the page accepts only tokens.
type Config struct {
	Issuer   string `json:"issuer,omitempty"`
	ClientID string `json:"clientID,omitempty"`
}

// policy returns the Content-Security-Policy. The page executes and loads only files of its own server, other pages
// cannot embed it, and it sends requests only to its own server and to the provider of OpenID Connect.
func (c *Config) policy() string {
	connect := "'self'"
	if issuer, err := url.Parse(c.Issuer); err == nil && issuer.Host != "" {
		connect += " " + issuer.Scheme + "://" + issuer.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src " + connect + "; img-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
}

// pages matches the paths of the page: below /console/ of the root control plane, of another one, or of a past moment.
// The page itself parses the rest of the path.
var pages = regexp.MustCompile(`^(/clusters/[^/]+)?(/at/(rv/)?[^/]+)?/console(/|$)`)

// Handler returns a handler that serves the console without authentication, and passes all other requests to next. The
// response does not depend on whether the control plane or the moment of the path exists.
func Handler(config Config, next http.Handler) http.Handler {
	policy := config.policy()
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
			// A permanent redirect would remain in the cache of the browser, for later servers at this address.
			http.Redirect(w, r, r.URL.EscapedPath()+"/", http.StatusFound)
		case r.URL.Path == configPath:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-cache")
			_ = json.NewEncoder(w).Encode(config) // an error means that the client has disconnected
		case !isAsset:
			page().serve(w, r, policy)
		case assets()[name] == nil:
			http.NotFound(w, r)
		default:
			assets()[name].serve(w, r, policy)
		}
	})
}

// asset is a file with its compressed form.
type asset struct {
	contentType       string
	etag              string // weak, because both forms have the same one
	plain, compressed []byte
}

// newAsset reads an embedded file. It panics if the file does not exist, which is an error in this package.
func newAsset(name, contentType string) *asset {
	plain, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err))
	}
	sum := sha256.Sum256(plain)
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, _ = writer.Write(plain) // a buffer does not fail
	_ = writer.Close()
	return &asset{contentType: contentType, etag: `W/"` + hex.EncodeToString(sum[:16]) + `"`, plain: plain, compressed: compressed.Bytes()}
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request, policy string) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache") // a browser validates its copy, so that an upgrade of the server has an effect
	header.Set("Vary", "Accept-Encoding")
	header.Set("ETag", a.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), strings.TrimPrefix(a.etag, "W/")) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", a.contentType)
	body := a.plain
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		body = a.compressed
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
