//go:build !linux || race

package server

import "net"

// socketListener accepts connections as they are.
type socketListener struct{ net.Listener }
