package authn

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"
)

// tokenProtocol is the prefix of a WebSocket subprotocol that carries a bearer token in
// unpadded URL-safe base64. Browsers cannot set other headers when they open a WebSocket.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

const webSocketProtocols = "Sec-Websocket-Protocol"

// webSocketToken returns the bearer token among the subprotocols of a WebSocket request, or "" if
// there is none. It returns an error if there are two tokens, if the token is malformed, or if the
// client offers no other subprotocol, because the server never selects the token as the
// subprotocol.
func webSocketToken(r *http.Request) (string, error) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", nil
	}
	found, others := "", 0
	for protocol := range subprotocols(r.Header) {
		encoded, isToken := strings.CutPrefix(protocol, tokenProtocol)
		switch {
		case !isToken:
			others++
		case found != "":
			return "", errors.New("multiple " + tokenProtocol + " subprotocols")
		default:
			token, err := base64.RawURLEncoding.DecodeString(encoded)
			if err != nil || len(token) == 0 || !utf8.Valid(token) {
				return "", errors.New("invalid " + tokenProtocol + " subprotocol") // omits the token, because errors are logged
			}
			found = string(token)
		}
	}
	if found != "" && others == 0 {
		return "", errors.New("missing additional subprotocol")
	}
	return found, nil
}

// RemoveCredentials deletes bearer tokens from the header of an authenticated request, so that later handlers
// cannot forward or log them. It removes the Authorization header and the tokens among the WebSocket
// subprotocols. It also removes kube-apiserver's default front-proxy headers, even if this server uses other
// headers or none, because pods and other servers may trust the default headers.
func RemoveCredentials(header http.Header) {
	header.Del("Authorization")
	removeDefaultHeaders(header)
	if len(header[webSocketProtocols]) == 0 {
		return
	}
	var others []string
	tokens := false
	for protocol := range subprotocols(header) {
		if strings.HasPrefix(protocol, tokenProtocol) {
			tokens = true
			continue
		}
		others = append(others, protocol)
	}
	switch {
	case !tokens:
	case len(others) == 0:
		delete(header, webSocketProtocols)
	default:
		header[webSocketProtocols] = []string{strings.Join(others, ", ")}
	}
}

// subprotocols returns an iterator over the WebSocket subprotocols that a client offers.
func subprotocols(header http.Header) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range header[webSocketProtocols] {
			for protocol := range strings.SplitSeq(line, ",") {
				if protocol = strings.TrimSpace(protocol); protocol != "" && !yield(protocol) {
					return
				}
			}
		}
	}
}
