package filters

import (
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// auditIDHeader contains an ID that identifies the request in all logs. A client or an intermediate
// proxy may choose the ID.
const (
	auditIDHeader    = "Audit-Id"
	maxAuditIDLength = 64
)

// AuditID assigns an ID to every request and returns it in the response header. An ID in the
// request header is kept, truncated to 64 bytes. AuditID is the first filter that can respond, so
// every response has an ID.
func AuditID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(withAuditID(w, r), r)
	})
}

func withAuditID(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	response := wrap(w)
	response.Header()[auditIDHeader] = []string{newAuditID(r.Header)}
	return response
}

func newAuditID(header http.Header) string {
	id := header.Get(auditIDHeader)
	if id == "" {
		return uuid.NewString()
	}
	if len(id) > maxAuditIDLength {
		return strings.Clone(id[:maxAuditIDLength]) // the copy does not retain the complete header value
	}
	return id
}

// auditIDOf returns the ID that AuditID set.
func auditIDOf(w http.ResponseWriter) string { return w.Header().Get(auditIDHeader) }
