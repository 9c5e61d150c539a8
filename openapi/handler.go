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
	// The protobuf types are asked for in either spelling, the first being the
	// one of old, and answered in the second: clients look for it.
	mediaV2At       = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	mediaV2Protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaV3At       = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
	mediaV3Protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// Handler serves /openapi/v2, /openapi/v3 and the documents below it; what is
// not there is answered with 404. Whether a caller may read them was decided
// before. A document that cannot be drawn is logged and answered with 503.
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
	// As kube-apiserver, which leaves the type of the index to be guessed.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	http.ServeContent(w, r, "", index.modified, bytes.NewReader(index.json))
}

// serveHashed serves a v3 document. Asked for by its hash it may be cached for
// ever; by another hash, the client is sent on to the present one.
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
		http.Redirect(w, r, hashedURL(name, etag), http.StatusMovedPermanently)
		return
	}
	w.Header().Set("Cache-Control", "public, immutable")
	w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(time.RFC1123))
	h.serve(w, r, document)
}

// serve serves a document in the media type that the client likes best.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, document *Document) {
	w.Header().Set("Vary", "Accept")
	media := negotiate(r.Header.Get("Accept"), document.version)
	if media == "" {
		w.Header().Del("Cache-Control")
		w.Header().Del("Expires")
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	content := func() (sent, error) { return packed(document.JSON()) }
	gzip := acceptsGzip(r.Header.Get("Accept-Encoding"))
	switch {
	case media != mediaJSON && gzip:
		content = func() (sent, error) { return packed(document.Protobuf()) }
	case media != mediaJSON:
		content = func() (sent, error) { return unpacked(document.PlainProtobuf()) }
	case !gzip:
		content = func() (sent, error) { return unpacked(document.PlainJSON()) }
	}
	if err := h.serveMedia(w, r, document, media, content); err != nil {
		h.fail(w, r, err)
	}
}

// sent is a document as it is sent.
type sent struct {
	data   []byte
	isGzip bool
}

func packed(c Content, err error) (sent, error) { return sent{c.Gzip, true}, err }

func unpacked(data []byte, err error) (sent, error) { return sent{data, false}, err }

// serveMedia writes a document in one media type, compressed to clients that can
// do with that.
func (h *handler) serveMedia(w http.ResponseWriter, r *http.Request, document *Document, media string, content func() (sent, error)) error {
	var body sent
	if r.Header.Get("If-None-Match") == "" {
		// It will be sent; to draw it first gives the ETag without more work.
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
		// A range would be one of the compressed bytes, which is of no use.
		r = r.Clone(r.Context())
		r.Header.Del("Range")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(body.data)))
	}
	http.ServeContent(w, r, "", document.Modified, bytes.NewReader(body.data))
	return nil
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	h.logger.ErrorContext(r.Context(), "cannot draw OpenAPI document", "path", r.URL.Path, "err", err)
	for name := range w.Header() {
		w.Header().Del(name)
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// negotiate returns the media type to answer with, empty if none will do.
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

// acceptsGzip tells whether the client can do with gzip.
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
