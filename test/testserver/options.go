package testserver

import "time"

// Options configure a server. The zero value uses a temporary directory and a free port.
type Options struct {
	// Flags are appended to the flags that this package sets (--data-dir, --secure-port,
	// --bind-address).
	Flags []string
	// Dir is the data directory. If empty, a temporary directory is used and removed at the end of
	// the test.
	Dir string
	// ReadyTimeout is the timeout for /readyz after the start; 0 selects 60 seconds.
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
