package endpoints

import (
	"context"
	"net/http"
	"strings"

	"golang.org/x/net/websocket"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
)

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && headerHas(r.Header, "Connection", "upgrade")
}

func headerHas(h http.Header, name, token string) bool {
	for _, value := range h.Values(name) {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// serveWebSocket sends each event as one message, which is text for JSON and binary for protobuf.
func (c *call) serveWebSocket(f *activeWatch) error {
	server := websocket.Server{
		// Authentication determines access. The Origin header is not checked, because clients other
		// than browsers can set any value.
		Handshake: func(*websocket.Config, *http.Request) error { return nil },
		Handler: func(conn *websocket.Conn) {
			if f.framer.target.media == codec.Protobuf {
				conn.PayloadType = websocket.BinaryFrame
			}
			c.sendMessages(conn, f)
		},
	}
	server.ServeHTTP(c.w, c.r)
	return nil
}

func (c *call) sendMessages(conn *websocket.Conn, f *activeWatch) {
	request.Release(c.r)
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	go func() {
		// Data from the client is discarded. The end of the client's stream ends the watch.
		defer cancel()
		discard := make([]byte, 1<<10)
		for {
			if _, err := conn.Read(discard); err != nil {
				return
			}
		}
	}()
	defer func() { _ = conn.Close() }()
	for {
		events, err := f.Next(ctx)
		for i := range events {
			frame, done := f.framer.appendBatch(nil, events[i:i+1], nil)
			if _, err := conn.Write(f.framer.message(frame)); err != nil || done {
				return
			}
			c.api.config.countEvents(c.resource, 1, len(frame))
		}
		if err != nil {
			if frame, _ := f.framer.appendBatch(nil, nil, err); len(frame) > 0 {
				_, _ = conn.Write(f.framer.message(frame))
			}
			return
		}
	}
}

// message returns the payload of a WebSocket message for a frame. It omits the length prefix,
// because WebSocket messages have a length.
func (f *framer) message(frame []byte) []byte {
	if f.target.media == codec.Protobuf && len(frame) > frameLength {
		return frame[frameLength:]
	}
	return frame
}
