package apitest

import (
	"time"

	"mainstay.dev/mainstay/internal/filters/faults"
)

// Fault makes requests fail: its first fields select authorized requests, the others say
// what befalls them. Controllers inside the server make no requests.
type Fault = faults.Fault

// Injection is a fault that was injected: Remove removes it, Hits counts the requests that
// it has met.
type Injection = faults.Injection

// Inject makes requests fail from now on, until Remove or the end of the test. Of several
// faults, the one injected first is asked first. It ends the test where the fault makes
// no sense.
func (s *Server) Inject(fault Fault) *Injection {
	s.t.Helper()
	injected, err := s.faults.Inject(s.t.Context(), fault)
	if err != nil {
		s.t.Fatal(err)
	}
	return injected
}

// Now returns the time of the server's objects.
func (s *Server) Now() time.Time { return s.world.Now() }

// Advance moves the time of the server's objects: timestamps from now on are later, and
// what has a time to live (events, tokens of accounts and of bootstrapping, client
// certificates, finished jobs) may have outlived it. Timeouts of requests, intervals of the
// server, and the conditions that it sets on definitions go by the machine's clock.
func (s *Server) Advance(d time.Duration) { s.world.Advance(d) }
