// Package http2 serves HTTP/2 (RFC 9113) for a net/http server in place of the
// implementation that comes with it: Configure, and net/http hands over every
// connection that has agreed on "h2". Handlers see what they see there.
//
// It is made for many streams that each send little at a time: watches. A response
// is written by the goroutine that made it, without a loop or channels in between,
// when it is flushed, complete, or enough for a write, which carries what all streams
// of the connection have pending. Parsing of frames and HPACK are
// golang.org/x/net/http2's.
//
// A connection (conn) has one goroutine that reads, and one lock, which guards
// its streams, windows and the bytes waiting to be written; it is never held
// while bytes are written. Handlers run on goroutines that are used again.
//
// It is not for HTTP/1.1, which stays net/http's, nor for connections without
// TLS, server push, priorities, extended CONNECT, or http.Server.ConnState:
// to net/http a connection is active until it ends.
package http2
