package proxy

import (
	"net/http"
	"strings"

	"mainstay.dev/mainstay/internal/request"
)

// Request headers that identify the user. Other servers trust them if the client presents the front
// proxy's certificate.
const (
	userHeader        = "X-Remote-User"
	uidHeader         = "X-Remote-Uid"
	groupHeader       = "X-Remote-Group"
	extraHeaderPrefix = "X-Remote-Extra-"
)

// SetUser sets the request headers that identify the user. It removes the client's credentials,
// impersonation and X-Remote- headers, in every spelling that a backend might accept (see
// request.NormalizeHeader).
func SetUser(h http.Header, user *request.User) {
	for name := range h {
		normalized := request.NormalizeHeader(name)
		if strings.HasPrefix(normalized, "x-remote-") || strings.HasPrefix(normalized, "impersonate-") || normalized == "authorization" {
			delete(h, name)
		}
	}
	h.Set(userHeader, user.Name)
	if user.UID != "" {
		h.Set(uidHeader, user.UID)
	}
	for _, group := range user.Groups {
		h.Add(groupHeader, group)
	}
	for key, values := range user.Extra {
		for _, value := range values {
			h.Add(extraHeaderPrefix+escapeHeaderKey(key), value)
		}
	}
}

// escapeHeaderKey encodes a key of User.Extra for use in a header name. It percent-encodes the
// percent sign and all characters that are not allowed in an RFC 7230 token.
func escapeHeaderKey(key string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if isTokenByte(c) && c != '%' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
