// Package console serves the web console: static files that read the API with the credentials of their user.
// The directory console at the root of the module contains their source.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
)

//go:embed assets
var files embed.FS

// AssetPath is the prefix of the paths of scripts and styles.
const AssetPath = "/console/assets/"

// policy is the Content-Security-Policy. The page executes and loads only files of its own server, and other pages
// cannot embed it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// pages matches the paths of the page: below /console/ of the root control plane, of another one, or of a past moment.
// The page itself parses the rest of the path.
var pages = regexp.MustCompile(`^(/clusters/[^/]+)?(/at/(rv/)?[^/]+)?/console(/|$)`)

// Handler returns a handler that serves the console without authentication, and passes all other requests to next. The
// response does not depend on whether the control plane or the moment of the path exists.
func Handler(next http.Handler) http.Handler {
	page := sync.OnceValue(func() *asset { return newAsset("index.html") })
	assets := sync.OnceValue(func() map[string]*asset {
		return map[string]*asset{"console.js": newAsset("console.js"), "console.css": newAsset("console.css"), "icon.svg": newAsset("icon.svg")}
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
			http.Redirect(w, r, r.URL.EscapedPath()+"/", http.StatusMovedPermanently)
		case !isAsset:
			page().serve(w, r)
		case assets()[name] == nil:
			http.NotFound(w, r)
		default:
			assets()[name].serve(w, r)
		}
	})
}

// asset is a file with its compressed form.
type asset struct {
	contentType, etag string
	plain, compressed []byte
}

// newAsset reads an embedded file. It panics if the file does not exist, which is an error in this package.
func newAsset(name string) *asset {
	plain, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(fmt.Sprintf("read an embedded file: %v", err))
	}
	sum := sha256.Sum256(plain)
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, _ = writer.Write(plain) // a buffer does not fail
	_ = writer.Close()
	contentType := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".js" {
		contentType = "text/javascript; charset=utf-8" // independent of the MIME types of the machine
	}
	return &asset{contentType: contentType, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, plain: plain, compressed: compressed.Bytes()}
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache") // a browser asks with the ETag, so that an upgrade of the server has an effect
	header.Set("Vary", "Accept-Encoding")
	header.Set("ETag", a.etag)
	if strings.Contains(r.Header.Get("If-None-Match"), a.etag) {
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
		if coding, parameters, _ := strings.Cut(strings.TrimSpace(value), ";"); coding == "gzip" {
			return strings.ReplaceAll(parameters, " ", "") != "q=0"
		}
	}
	return false
}
