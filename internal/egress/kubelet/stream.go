package kubelet

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
)

// Streams specifies which streams of a command are connected. If TTY is set, the command runs in a terminal,
// which merges stdout and stderr.
type Streams struct {
	Stdin, Stdout, Stderr, TTY bool
}

// Stream is an exec, attach or port-forward request, which upgrades its connection.
type Stream struct {
	// Kubelet is the kubelet of the pod. Path and Query are the path and query of the request to the kubelet.
	Kubelet *ConnectionInfo
	Path    string
	Query   url.Values
	// Streams are the streams of a command; nil for port-forward.
	Streams *Streams
}

// Stream returns the handler of an exec, attach or port-forward request. If the kubelet supports the client's
// protocol, the handler forwards the data unchanged; otherwise it translates the data to SPDY. onError writes
// the response if the connection was not upgraded.
func (c *Client) Stream(s *Stream, onError rest.ErrorWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !proxy.IsUpgrade(r):
			onError(w, r, apierrors.NewBadRequest("Upgrade request required"))
		case s.Kubelet.WebSockets:
			c.proxyStream(w, r, s, onError)
		case s.Streams != nil && c.config.Gates.Enabled(feature.TranslateStreamCloseWebsocketRequests) && wsstream.IsWebSocketRequestWithStreamCloseProtocol(r):
			c.translate(w, r, s)
		case s.Streams == nil && c.config.Gates.Enabled(feature.PortForwardWebsockets) && wsstream.IsWebSocketRequestWithTunnelingProtocol(r):
			c.tunnel(w, r, s, onError)
		default:
			c.proxyStream(w, r, s, onError)
		}
	})
}

// proxyStream forwards the request and the data of the connection unchanged.
func (c *Client) proxyStream(w http.ResponseWriter, r *http.Request, s *Stream, onError rest.ErrorWriter) {
	at := s.Kubelet.url(s.Path, s.Query)
	c.config.Proxy.Serve(w, r, &proxy.Backend{
		Transport:      c.transports().kubelets.upgrading,
		Rewrite:        func(p *httputil.ProxyRequest) { p.Out.URL = at },
		ModifyResponse: checkUpgrade,
		OnError: func(err error) {
			if r.Context().Err() == nil {
				onError(w, r, fmt.Errorf("error dialing backend: %w", err))
			}
		},
	})
}

// checkUpgrade rejects responses that neither upgrade the connection nor report an error.
func checkUpgrade(response *http.Response) error {
	response.Header.Del("Audit-Id") // this server sets its own Audit-Id
	switch code := response.StatusCode; {
	case proxy.IsRedirect(response):
		return errRedirect
	case code != http.StatusSwitchingProtocols && code < 400:
		return fmt.Errorf("invalid upgrade response: status code %d", code)
	}
	return nil
}
