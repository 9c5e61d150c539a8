package kubelet

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/rest"
)

// tunnelPrefix is the prefix of WebSocket protocols that tunnel a SPDY protocol.
const tunnelPrefix = spdyProtocol + "+"

// tunnel forwards a SPDY connection between a client and a kubelet. The client sends the SPDY data in WebSocket
// messages.
func (c *Client) tunnel(w http.ResponseWriter, r *http.Request, s *Stream, onError rest.ErrorWriter) {
	response, kubelet, err := c.dialSPDY(r.Context(), s, tunneledProtocols(r)...)
	if err != nil {
		onError(w, r, err)
		return
	}
	if kubelet == nil {
		defer func() { _ = response.Body.Close() }()
		if checkUpgrade(response) != nil {
			onError(w, r, apierrors.NewInternalError(errors.New("the kubelet did not upgrade the connection")))
			return
		}
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
		_, _ = io.CopyN(w, response.Body, maxErrorText)
		return
	}
	defer func() { _ = kubelet.Close() }()
	protocol := tunnelPrefix + response.Header.Get(streamProtocolHeader)
	if !slices.Contains(tunneledProtocols(r), response.Header.Get(streamProtocolHeader)) {
		http.Error(w, "the kubelet does not support any of the protocols", http.StatusForbidden)
		return
	}
	if client := acceptWebSocket(w, r, c.config.Proxy, protocol); client != nil {
		c.config.Proxy.Join(client, kubelet)
	}
}

// tunneledProtocols returns the SPDY protocols that the client offers to use inside a tunnel.
func tunneledProtocols(r *http.Request) []string {
	var protocols []string
	for _, value := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(value, ",") {
			if protocol, ok := strings.CutPrefix(strings.TrimSpace(name), tunnelPrefix); ok {
				protocols = append(protocols, protocol)
			}
		}
	}
	return protocols
}
