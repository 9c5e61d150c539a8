package apitest

import (
	"time"

	"mainstay.dev/mainstay/internal/filters/faults"
)

// Fault describes a failure of requests. Its first fields select authorized requests; the other fields
// define the failure. Controllers inside the server are not affected.
type Fault = faults.Fault

// Injection is an injected fault. Remove removes it, and may be called more than once. Hits returns
// the number of requests that the fault has affected.
type Injection = faults.Injection

// Inject injects a fault until Injection.Remove or the end of the test. If several faults match a
// request, the one that was injected first applies. An invalid fault ends the test.
func (s *Server) Inject(fault Fault) *Injection {
	s.t.Helper()
	injected, err := s.faults.Inject(s.t.Context(), fault)
	if err != nil {
		s.t.Fatal(err)
	}
	return injected
}

// Now returns the current time of the server's clock for objects.
func (s *Server) Now() time.Time { return s.simulation.Now() }

// Advance moves the server's clock for objects. Later timestamps change, and objects with a time to
// live (events, tokens, client certificates, finished jobs) may expire. Request timeouts, internal
// intervals, and the conditions of definitions use the system clock.
func (s *Server) Advance(d time.Duration) { s.simulation.Advance(d) }
