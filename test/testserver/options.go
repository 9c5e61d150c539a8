package testserver

import "time"

// Options configure a server. The zero value starts one in a directory of its own on a free port.
type Options struct {
	// Flags follow the ones this package sets (--data-dir, --secure-port, --bind-address) on the command line.
	Flags []string
	// Dir is the data directory. If empty, a temporary directory is used and removed at the end of
	// the test.
	Dir string
	// ReadyTimeout bounds the wait for /readyz. Zero means 60 seconds.
	ReadyTimeout time.Duration
	// AllowPanics prevents panics in the server's log from failing the test.
	AllowPanics bool
}

func (o Options) readyTimeout() time.Duration {
	if o.ReadyTimeout > 0 {
		return o.ReadyTimeout
	}
	return time.Minute
}
