package kubelet

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// WebSocket subprotocols for logs. If the client requests no protocol, messages are binary.
const (
	binaryLogProtocol = "binary.k8s.io"
	base64LogProtocol = "base64.binary.k8s.io" // text messages
)

// sendLogMessages sends an empty WebSocket message, followed by the log. It closes text, and
// ignores messages from the client. If the log is incomplete, the connection is closed without a
// close frame.
func (c *Client) sendLogMessages(w http.ResponseWriter, r *http.Request, text io.ReadCloser) {
	defer func() { _ = text.Close() }()
	protocol, ok := logProtocol(r)
	if !ok {
		http.Error(w, "the WebSocket protocols of the request are not supported for logs", http.StatusForbidden)
		return
	}
	client := acceptWebSocket(w, r, c.config.Proxy, protocol)
	if client == nil {
		return
	}
	stop := sync.OnceFunc(func() { _, _ = text.Close(), client.conn.Close() })
	defer stop()
	forget := c.config.Proxy.OnStop(stop)
	defer forget()
	go func() {
		_, _ = io.Copy(io.Discard, client)
		stop() // the client has disconnected
	}()
	if err := copyMessages(client, text, protocol == base64LogProtocol); err == nil {
		_ = client.Close()
	}
}

// logProtocol returns the client's first WebSocket protocol that log streams support, or "" if the
// client offers no protocol. ok is false if the client offers only unsupported protocols.
func logProtocol(r *http.Request) (protocol string, ok bool) {
	offered := r.Header.Values("Sec-Websocket-Protocol")
	for _, value := range offered {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name == binaryLogProtocol || name == base64LogProtocol {
				return name, true
			}
		}
	}
	return "", len(offered) == 0
}

// logMessageSize is the maximum amount of log data in a message, in bytes.
const logMessageSize = 6 << 10

// copyMessages sends an empty message and then text, in binary messages or, if encoded is set, in
// base64 text messages.
func copyMessages(to *webSocket, text io.Reader, encoded bool) error {
	raw := make([]byte, logMessageSize)
	message := make([]byte, socketHeaderSize, socketHeaderSize+base64.StdEncoding.EncodedLen(logMessageSize))
	kind := binaryFrame
	if encoded {
		kind = textFrame
	}
	if err := to.send(kind, message); err != nil {
		return err
	}
	for {
		n, err := text.Read(raw)
		if n > 0 {
			if encoded {
				message = base64.StdEncoding.AppendEncode(message[:socketHeaderSize], raw[:n])
			} else {
				message = append(message[:socketHeaderSize], raw[:n]...)
			}
			if err := to.send(kind, message); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
