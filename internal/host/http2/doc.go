// Package http2 serves HTTP/2 (RFC 9113) for a net/http server. After Configure, net/http passes all
// connections that negotiated "h2" to this package. Handlers use the same interfaces as with net/http's
// implementation.
//
// The package is optimized for many streams that send small amounts of data, such as watches. There is usually
// no separate writing goroutine: the goroutine that produces a response also writes it when the response is
// flushed, complete, or large enough. A write contains the pending data of all streams.
//
// golang.org/x/net/http2 parses frames and HPACK. A connection (conn) has one reading goroutine and one
// lock for its streams, windows and pending bytes. The lock is not held during writes. Each handler has its
// own goroutine.
//
// The package does not support connections without TLS, server push, priorities, and extended CONNECT.
// net/http continues to serve HTTP/1.1. http.Server.ConnState reports a connection as active until it ends.
package http2
