package openapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/munnerz/goautoneg"
)

// Media types of documents.
const (
	mediaJSON = "application/json"
	// Both spellings of the protobuf types are accepted. Responses use the newer spelling (without @),
	// which clients check.
	mediaV2At       = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	mediaV2Protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaV3At       = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	mediaV3Protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// Handler returns the handler for /openapi/v2, /openapi/v3 and the documents below it. It responds
// with 404 to other paths and does not authorize requests. If a document cannot be built, it logs
// the error to logger, which is required, and responds with 503.
func (d *Documents) Handler(logger *slog.Logger) http.Handler {
	return &handler{documents: d, logger: logger}
}

type handler struct {
	documents *Documents
	logger    *slog.Logger
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/openapi/")
	switch {
	case path == "v2":
		h.serve(w, r, h.documents.V2())
	case path == "v3" || path == "v3/":
		h.serveIndex(w, r)
	default:
		name, below := strings.CutPrefix(path, "v3/")
		if remote := h.documents.remote(name); below && remote != nil {
			remote.ServeHTTP(w, r)
			return
		}
		document, ok := h.documents.V3(name)
		if !below || !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.serveHashed(w, r, name, document)
	}
}

func (h *handler) serveIndex(w http.ResponseWriter, r *http.Request) {
	index, err := h.documents.currentIndex()
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Etag", strconv.Quote(index.etag))
	// kube-apiserver sends the same type, which net/http detects from the content.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", index.modified, bytes.NewReader(index.json))
}

// serveHashed serves a v3 document. If the query contains the current hash of the document, the response is
// immutable. If it contains another hash, the response redirects to the URL with the current hash.
func (h *handler) serveHashed(w http.ResponseWriter, r *http.Request, name string, document *Document) {
	hash := r.URL.Query().Get("hash")
	if hash == "" {
		h.serve(w, r, document)
		return
	}
	etag, err := document.ETag()
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if hash != etag {
		w.Header().Set("Etag", strconv.Quote(etag))
		w.Header().Set("Vary", "Accept")
		http.Redirect(w, r, h.documents.pathPrefix+hashedURL(name, etag), http.StatusMovedPermanently)
		return
	}
	w.Header().Set("Cache-Control", "public, immutable")
	w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(time.RFC1123))
	h.serve(w, r, document)
}

// serve serves a document in the media type that the client prefers.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, document *Document) {
	w.Header().Set("Vary", "Accept")
	media := negotiate(r.Header.Get("Accept"), document.version)
	if media == "" {
		w.Header().Del("Cache-Control")
		w.Header().Del("Expires")
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	content := func() (responseBody, error) { return gzippedBody(document.JSON()) }
	gzip := acceptsGzip(r.Header.Get("Accept-Encoding"))
	switch {
	case media != mediaJSON && gzip:
		content = func() (responseBody, error) { return gzippedBody(document.Protobuf()) }
	case media != mediaJSON:
		content = func() (responseBody, error) { return plainBody(document.PlainProtobuf()) }
	case !gzip:
		content = func() (responseBody, error) { return plainBody(document.PlainJSON()) }
	}
	if err := h.serveMedia(w, r, document, media, content); err != nil {
		h.fail(w, r, err)
	}
}

type responseBody struct {
	data   []byte
	isGzip bool
}

func gzippedBody(c Content, err error) (responseBody, error) { return responseBody{c.Gzip, true}, err }

func plainBody(data []byte, err error) (responseBody, error) { return responseBody{data, false}, err }

// serveMedia serves a document in a media type. content returns the body.
func (h *handler) serveMedia(w http.ResponseWriter, r *http.Request, document *Document, media string, content func() (responseBody, error)) error {
	var body responseBody
	if r.Header.Get("If-None-Match") == "" {
		// The body will be sent, and building it yields the ETag.
		var err error
		if body, err = content(); err != nil {
			return err
		}
	}
	etag, err := document.ETag()
	if err != nil {
		return err
	}
	quoted := strconv.Quote(etag)
	w.Header().Set("Etag", quoted)
	if r.Header.Get("If-None-Match") == quoted && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if body.data == nil {
		if body, err = content(); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", media)
	w.Header().Add("Vary", "Accept-Encoding")
	if body.isGzip {
		// Ranges refer to the uncompressed document, so they are ignored.
		r = r.Clone(r.Context())
		r.Header.Del("Range")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(body.data)))
	}
	http.ServeContent(w, r, "", document.Modified, bytes.NewReader(body.data))
	return nil
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	h.logger.ErrorContext(r.Context(), "cannot build OpenAPI document", "path", r.URL.Path, "err", err)
	for name := range w.Header() {
		w.Header().Del(name)
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// negotiate returns the media type of the response, or "" if the client accepts no supported type.
func negotiate(accept string, v version) string {
	if accept == "" {
		return mediaJSON
	}
	at, protobuf := mediaV3At, mediaV3Protobuf
	if v == v2 {
		at, protobuf = mediaV2At, mediaV2Protobuf
	}
	for _, clause := range goautoneg.ParseAccept(accept) {
		switch clause.Type + "/" + clause.SubType {
		case mediaJSON, "*/*", "application/*":
			return mediaJSON
		case at, protobuf:
			return protobuf
		}
	}
	return ""
}

// acceptsGzip reports whether an Accept-Encoding header allows gzip.
func acceptsGzip(accept string) bool {
	for clause := range strings.SplitSeq(accept, ",") {
		coding, parameters, _ := strings.Cut(clause, ";")
		if c := strings.TrimSpace(coding); c != "gzip" && c != "*" {
			continue
		}
		q, found := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !found || err == nil && weight > 0
	}
	return false
}
