package testserver

import "time"

// Options configures a server. The zero value selects a temporary directory and a free port.
type Options struct {
	// Flags are appended to the flags that this package sets (--data-dir, --secure-port and --bind-address).
	Flags []string
	// Dir is the data directory. If it is empty, the server uses a temporary directory, which is removed when
	// the test ends.
	Dir string
	// ReadyTimeout is how long to wait until /readyz succeeds after the start; 0 selects 60 seconds.
	ReadyTimeout time.Duration
	// AllowPanics disables the check that fails the test if the server's log reports a panic.
	AllowPanics bool
}

func (o Options) readyTimeout() time.Duration {
	if o.ReadyTimeout > 0 {
		return o.ReadyTimeout
	}
	return time.Minute
}
