package local

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/console"
)

// SessionPath is the path at which the page exchanges a one-time code for a session token: a POST with the code as its
// body. A GET has the response header Mainstay-Console, so that the page knows that a code is required.
const SessionPath = "/console/session"

// maxCode is the maximum size of the body of a request to SessionPath, in bytes.
const maxCode = 256

// Proxy serves the console and the API on a loopback address. It is safe for concurrent use.
type Proxy struct {
	hosts    map[string]bool // the accepted Host headers
	sessions sessions
	handler  http.Handler
}

// NewProxy returns a proxy for the API at a base URL. transport authenticates as the user. address is the loopback address
// of the listener; requests with another host are rejected, because they can come from a page whose name resolves to this
// machine.
func NewProxy(base string, transport http.RoundTripper, address net.Addr) (*Proxy, error) {
	target, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of the server: %w", err)
	}
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil, fmt.Errorf("parse the address of the console: %w", err)
	}
	p := &Proxy{hosts: map[string]bool{address.String(): true, "localhost:" + port: true}, sessions: sessions{now: time.Now}}
	p.handler = console.Handler(p.authenticate(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // the session token; the transport adds the credentials
			r.Out.Header.Del("Origin")
			r.Out.Header.Del("Cookie")
		},
		Transport:     transport,
		FlushInterval: -1, // watches and logs
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, fmt.Sprintf("the server does not respond: %v", err), http.StatusBadGateway)
		},
	}))
	return p, nil
}

// NewCode returns a code that a page can exchange once for a session. Earlier codes become invalid.
func (p *Proxy) NewCode() string { return p.sessions.newCode() }

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !p.hosts[r.Host]:
		http.Error(w, "the request has another host than this console", http.StatusForbidden)
	case !sameOrigin(r):
		http.Error(w, "the request comes from another page", http.StatusForbidden)
	case r.URL.Path == SessionPath:
		p.serveSession(w, r)
	default:
		p.handler.ServeHTTP(w, r)
	}
}

// sameOrigin reports whether a browser sent the request from a page of this address, from its address bar, or as a
// navigation. Other clients than browsers send neither header.
func sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none" || r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

func (p *Proxy) serveSession(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Mainstay-Console", "local")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		code, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCode))
		if err != nil {
			http.Error(w, "the code cannot be read", http.StatusBadRequest)
			return
		}
		token, ok := p.sessions.exchange(strings.TrimSpace(string(code)))
		if !ok {
			http.Error(w, "The code is wrong, expired, or was used before.", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, token) // an error means that the client has disconnected
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// authenticate passes requests with a session token to next.
func (p *Proxy) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); !ok || !p.sessions.valid(token) {
			http.Error(w, "The request has no valid session.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
