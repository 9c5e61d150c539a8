package filters

import "net/http"

// HeaderLimit returns a filter that rejects requests with more than max header fields with 431.
// Like net/http for headers with too many bytes, it responds in plain text and closes the
// connection. The limit is necessary because a field uses several times its size in memory. Package
// http2 counts fields while it reads them; HeaderLimit counts the fields of requests read by
// net/http.
func HeaderLimit(max int) Filter {
	return filterFunc(func(w http.ResponseWriter, r *http.Request) bool {
		fields := len(r.Trailer) // announced in the header, one name each
		for _, values := range r.Header {
			fields += len(values)
		}
		if fields > max {
			w.Header().Set("Connection", "close")
			http.Error(w, "431 Request Header Fields Too Large", http.StatusRequestHeaderFieldsTooLarge)
			return false
		}
		return true
	})
}

// CloseChunked closes an HTTP/1.1 connection after the response to a request with a chunked body.
// If such a request also had a Content-Length, the connection must not be reused, because a proxy
// may disagree about the end of the request (RFC 9112, 6.1). net/http silently removes the
// Content-Length, so CloseChunked closes the connection for all chunked requests. API clients
// rarely send them.
func CloseChunked(next http.Handler) http.Handler {
	return filterFunc(func(w http.ResponseWriter, r *http.Request) bool {
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		return true
	})(next)
}
