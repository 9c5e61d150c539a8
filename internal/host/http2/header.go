package http2

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// headerNames caches the lower-case forms of header names. Servers usually use few names; maxCachedNames limits
// the size of the cache if they do not.
type headerNames struct {
	lower sync.Map // from name to lower-case name; "" for names that must not be sent
	mu    sync.Mutex
	count int
}

const maxCachedNames = 1000

func (n *headerNames) get(key string) string {
	if name, ok := n.lower.Load(key); ok {
		return name.(string)
	}
	name := strings.ToLower(key)
	if !httpguts.ValidHeaderFieldName(key) || slices.Contains(hopByHopNames(), name) {
		name = ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.count < maxCachedNames {
		n.count++
		n.lower.Store(strings.Clone(key), name)
	}
	return name
}

// hopByHopNames returns the connection-specific headers that HTTP/2 forbids. They are dropped from
// responses.
func hopByHopNames() []string {
	return []string{"connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive"}
}

// appendFields appends the values of a header, except invalid ones.
func (n *headerNames) appendFields(fields []hpack.HeaderField, key string, values []string) []hpack.HeaderField {
	name := n.get(key)
	if name == "" {
		return fields
	}
	for _, value := range values {
		if httpguts.ValidHeaderFieldValue(value) {
			fields = append(fields, hpack.HeaderField{Name: name, Value: value, Sensitive: neverIndexed(name)})
		}
	}
	return fields
}

// neverIndexed reports whether the values of a field rarely repeat. Such values are not added to
// HPACK's dynamic table, because they would evict useful entries.
func neverIndexed(name string) bool {
	switch name {
	case "audit-id", "content-length", "etag":
		return true
	}
	return false
}

// cachedDate is the value of the Date header, valid for one second.
type cachedDate struct {
	second int64
	text   string
}

func (srv *server) dateHeader() string {
	now := time.Now()
	if d := srv.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &cachedDate{second: now.Unix(), text: now.UTC().Format(http.TimeFormat)}
	srv.date.Store(d)
	return d.text
}

// statusText formats a status code. It does not allocate for frequent codes.
func statusText(code int) string {
	switch code {
	case 200:
		return "200"
	case 201:
		return "201"
	case 404:
		return "404"
	case 409:
		return "409"
	}
	return strconv.Itoa(code)
}

// validTrailer reports whether a field may be a trailer.
func validTrailer(key string) bool { return httpguts.ValidTrailerHeader(key) }
