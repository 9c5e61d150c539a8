package filters

import "net/http"

// HeaderLimit answers requests whose header has more than max fields with 431, as
// net/http answers those that are too long in bytes: in plain text, and closing
// the connection. A field takes several times its bytes in memory. Our HTTP/2
// counts fields while it reads them; for what net/http reads it is done here.
func HeaderLimit(max int) Filter {
	return passing(func(w http.ResponseWriter, r *http.Request) bool {
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

// CloseChunked ends an HTTP/1.1 connection with the answer to a request whose body
// is chunked. Such a request may have had a Content-Length, too, in which case the
// connection must not be used again: a proxy before us may disagree about where
// the request ends (RFC 9112, 6.1). net/http removes that header without a word,
// and clients of an API hardly ever send chunks.
func CloseChunked(next http.Handler) http.Handler {
	return passing(func(w http.ResponseWriter, r *http.Request) bool {
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		return true
	})(next)
}
