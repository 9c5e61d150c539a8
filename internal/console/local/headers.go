package local

import (
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// tokenProtocol is the prefix of a WebSocket subprotocol that contains a token in unpadded URL-safe base64.
// Kubernetes defines this subprotocol, because a page cannot set the Authorization header of a WebSocket
// request.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

const webSocketProtocol = "Sec-Websocket-Protocol"

// sessionToken returns the session token of a request, or "".
func sessionToken(header http.Header) string {
	if token, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	encoded, _ := splitProtocols(header)
	token, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(token)
}

// splitProtocols splits the WebSocket subprotocols of a request into the encoded token, or "", and the other
// subprotocols.
func splitProtocols(header http.Header) (token string, others []string) {
	for protocol := range strings.SplitSeq(strings.Join(header.Values(webSocketProtocol), ","), ",") {
		protocol = strings.TrimSpace(protocol)
		if encoded, ok := strings.CutPrefix(protocol, tokenProtocol); ok {
			token = encoded
		} else if protocol != "" {
			others = append(others, protocol)
		}
	}
	return token, others
}

// cleanRequest removes the session token and headers that the browser adds, such as cookies of other servers on
// this machine. It keeps the impersonation headers, because the API authorizes them. Without them, the request
// would have all permissions of the kubeconfig's user.
func cleanRequest(header http.Header) {
	_, protocols := splitProtocols(header)
	for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer", webSocketProtocol} {
		header.Del(name)
	}
	if len(protocols) > 0 {
		header.Set(webSocketProtocol, strings.Join(protocols, ", "))
	}
}

// replaceBody replaces the body of a response with a text.
func replaceBody(response *http.Response, text string) {
	_ = response.Body.Close()
	response.Body = io.NopCloser(strings.NewReader(text))
	response.ContentLength = int64(len(text))
	response.Header.Set("Content-Length", strconv.Itoa(len(text)))
	response.Header.Set("Content-Type", "text/plain; charset=utf-8")
	response.Header.Del("Content-Encoding")
}

// cleanResponse prevents a response from affecting the console and other servers on this machine. The API
// forwards responses of pods, services and aggregated servers, which are not trusted. Only scripts can request
// these responses, because other requests of a browser have no session token. If the browser nevertheless
// opened such a response as a page, the policy would disable its scripts and give it an origin that differs
// from the origin of the console.
func cleanResponse(response *http.Response) error {
	header := response.Header
	if response.StatusCode == http.StatusUnauthorized {
		// The page interprets this code as the end of its session, but a new session would not help.
		response.StatusCode, response.Status = http.StatusBadGateway, ""
		replaceBody(response, "The server does not accept the credentials of the kubeconfig.")
	}
	for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Www-Authenticate", "Refresh", "Link"} {
		header.Del(name)
	}
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store") // responses can contain secrets
	return nil
}
