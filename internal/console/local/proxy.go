package local

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/console"
)

// SessionPath is the path at which the page exchanges a one-time code for a session token by sending a POST
// with the code as its body. The response to a GET has the header Mainstay-Console, which indicates to the page
// that a code is required.
const SessionPath = "/console/session"

// maxCode is the maximum size of the body of a request to SessionPath, in bytes.
const maxCode = 256

// Proxy serves the console and the API on a loopback address. It is safe for concurrent use.
type Proxy struct {
	hosts    map[string]bool // accepted values of the Host header
	port     uint16
	sessions sessions
	handler  http.Handler
}

// NewProxy returns a proxy for the API at a base URL. transport authenticates as the user. address is the
// loopback address of the listener; requests with another Host header are rejected, because they could come
// from a foreign page whose host name resolves to this machine (DNS rebinding). It returns an error if base is
// not a URL, or if address is not an IP address with a port.
func NewProxy(base string, transport http.RoundTripper, address net.Addr) (*Proxy, error) {
	target, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("parse the URL of the server: %w", err)
	}
	listening, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return nil, fmt.Errorf("parse the address of the console: %w", err)
	}
	p := &Proxy{hosts: map[string]bool{}, port: listening.Port(), sessions: sessions{now: time.Now}}
	for _, host := range []string{listening.String(), fmt.Sprintf("localhost:%d", p.port)} {
		p.hosts[host] = true
		p.hosts[strings.TrimSuffix(host, ":80")] = true // browsers omit the default port
	}
	p.handler = console.Handler(nil, p.authenticate(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			cleanRequest(r.Out.Header)
		},
		Transport:      transport, // adds the credentials
		ModifyResponse: cleanResponse,
		FlushInterval:  -1, // flush immediately, for watches and logs
		ErrorLog:       log.New(io.Discard, "", 0),
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
		http.Error(w, "the Host header of the request is not an address of this console", http.StatusForbidden)
	case !sameOrigin(r):
		http.Error(w, "the request comes from another page", http.StatusForbidden)
	case r.URL.Path == SessionPath:
		p.serveSession(w, r)
	default:
		p.handler.ServeHTTP(w, r)
	}
}

// sameOrigin reports whether a browser sent the request from a page of this server, from its address bar, or
// because the user followed a link on another page. It also returns true for clients that are not browsers,
// which send neither header.
func sameOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return false
	}
	site := r.Header.Get("Sec-Fetch-Site")
	isLink := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	return site == "" || site == "same-origin" || site == "none" || isLink
}

func (p *Proxy) serveSession(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Mainstay-Console", "local")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if client, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && !ownSocket(client.Port(), p.port) {
			http.Error(w, "The request comes from another user of this machine.", http.StatusForbidden)
			return
		}
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

// authenticate passes requests with a valid session token to next and rejects other requests.
func (p *Proxy) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.sessions.valid(sessionToken(r.Header)) {
			http.Error(w, "The request has no valid session.", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
