package kubelet

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Protocols of WebSocket connections that carry one stream, to the client. Without a
// protocol, messages are binary too.
const (
	binaryLogProtocol = "binary.k8s.io"
	base64LogProtocol = "base64.binary.k8s.io" // text messages
)

// sendLogMessages sends a log in messages of a WebSocket connection, after an empty one. It
// closes text. Messages of the client are ignored. If the log ends early, the connection
// ends without a close frame.
func (c *Client) sendLogMessages(w http.ResponseWriter, r *http.Request, text io.ReadCloser) {
	defer func() { _ = text.Close() }()
	protocol, ok := logProtocol(r)
	if !ok {
		http.Error(w, "the WebSocket protocols of the request are not supported for logs", http.StatusForbidden)
		return
	}
	client := acceptSocket(w, r, c.config.Proxy, protocol)
	if client == nil {
		return
	}
	stop := sync.OnceFunc(func() { _, _ = text.Close(), client.conn.Close() })
	defer stop()
	forget := c.config.Proxy.OnStop(stop)
	defer forget()
	go func() {
		_, _ = io.Copy(io.Discard, client)
		stop() // the client has left
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

// logMessage is the most of a log, in bytes, that one message carries.
const logMessage = 6 << 10

// copyMessages sends an empty message and then text, in binary messages or encoded in text
// messages.
func copyMessages(to *socket, text io.Reader, encoded bool) error {
	raw := make([]byte, logMessage)
	message := make([]byte, socketHead, socketHead+base64.StdEncoding.EncodedLen(logMessage))
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
				message = base64.StdEncoding.AppendEncode(message[:socketHead], raw[:n])
			} else {
				message = append(message[:socketHead], raw[:n]...)
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
