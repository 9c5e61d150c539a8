// Package http2 serves HTTP/2 (RFC 9113) for a net/http server: after Configure, net/http passes
// all connections that negotiated "h2". Handlers see the same interfaces as with net/http's
// implementation. It is optimized for many streams that send small amounts, such as watches. The
// goroutine that produces a response also writes it, without a loop or channels in between, when it
// is flushed, complete, or large enough; a write contains the pending data of all streams.
// golang.org/x/net/http2 parses frames and HPACK. A connection (conn) has one reading goroutine and
// one lock for its streams, windows and pending bytes. The lock is not held during writes. Each
// handler has its own goroutine. The package does not support HTTP/1.1, which net/http serves,
// connections without TLS, server push, priorities, extended CONNECT, or http.Server.ConnState: for
// net/http, a connection is active until it ends.
package http2
