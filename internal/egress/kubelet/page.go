package kubelet

import (
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxPage is the maximum size of an HTML page, in bytes. The limit applies to the uncompressed page, because the
// links in a page are rewritten in memory.
const maxPage = 32 << 20

// pageTransport prepares the response to one request for utilproxy.Transport, which rewrites the links in HTML
// pages. It decompresses pages and limits their size. A page with an unknown encoding cannot be rewritten.
type pageTransport struct {
	http.RoundTripper
	// hidden is the Content-Type of a page with an unknown encoding. RoundTrip removes this header, because
	// utilproxy.Transport would close the body. showType restores it.
	hidden []string
}

// RoundTrip implements http.RoundTripper.
func (t *pageTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil || !isPage(response) {
		return response, err
	}
	var text io.Reader = response.Body
	switch response.Header.Get("Content-Encoding") {
	case "":
	case "gzip":
		text = &gzipReader{source: response.Body}
	case "deflate":
		text = flate.NewReader(response.Body)
	default:
		t.hidden = response.Header["Content-Type"]
		response.Header.Del("Content-Type")
		return response, nil
	}
	response.Header.Del("Content-Encoding")
	response.Body = &page{text: text, Closer: response.Body}
	return response, nil
}

// showType restores the Content-Type of a page that was not rewritten.
func (t *pageTransport) showType(h http.Header) {
	if t.hidden != nil {
		h["Content-Type"] = t.hidden
	}
}

// isPage reports whether utilproxy.Transport would rewrite the response.
func isPage(response *http.Response) bool {
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	return strings.TrimSpace(media) == "text/html" && response.Header.Get("Location") == ""
}

// page is the body of a page. Reads fail after maxPage bytes.
type page struct {
	io.Closer
	text io.Reader
	read int
}

// Read implements io.Reader.
func (p *page) Read(b []byte) (int, error) {
	n, err := p.text.Read(b)
	if p.read += n; p.read > maxPage {
		return 0, fmt.Errorf("the page is longer than %d bytes", maxPage)
	}
	return n, err
}

// gzipReader decompresses a body. Unlike gzip.Reader, it accepts an empty body, as in the response to a HEAD
// request.
type gzipReader struct {
	source io.Reader
	text   *gzip.Reader // nil before the first read
}

// Read implements io.Reader.
func (r *gzipReader) Read(b []byte) (int, error) {
	if r.text == nil {
		var err error
		if r.text, err = gzip.NewReader(r.source); err != nil {
			return 0, err
		}
	}
	return r.text.Read(b)
}
