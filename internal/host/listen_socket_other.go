//go:build !linux || race

package host

import "net"

// socketListener accepts connections as they are.
type socketListener struct{ net.Listener }
