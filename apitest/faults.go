package apitest

import (
	"time"

	"mainstay.dev/mainstay/internal/filters/faults"
)

// Fault makes requests fail. Its first fields select authorized requests, the others define the
// failure. Controllers inside the server are not affected.
type Fault = faults.Fault

// Injection is a fault that was injected: Remove removes it, Hits counts the requests that
// it has met.
type Injection = faults.Injection

// Inject makes requests fail until Remove or the end of the test. If several faults match, the
// first injected one applies. An invalid fault ends the test.
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

// Advance moves the clock of the server's objects: later timestamps change, and objects with a time
// to live (events, tokens, client certificates, finished jobs) may expire. Request timeouts,
// intervals of the server, and the conditions of definitions use the machine's clock.
func (s *Server) Advance(d time.Duration) { s.world.Advance(d) }
