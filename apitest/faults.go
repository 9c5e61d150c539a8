package apitest

import (
	"time"

	"mainstay.dev/mainstay/internal/filters/faults"
)

// Fault describes how requests fail. The first fields select authorized requests; the other fields define the
// failure. Requests of the controllers inside the server are not affected.
type Fault = faults.Fault

// Injection is an injected fault. Remove removes the fault, and may be called more than once. Hits returns the
// number of requests that the fault has affected.
type Injection = faults.Injection

// Inject injects a fault. The fault remains until Injection.Remove is called or the test ends. If several
// faults match a request, the fault that was injected first applies. An invalid fault ends the test.
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

// Advance moves the server's clock for objects. It affects later timestamps, and objects with a time to live
// (events, tokens, client certificates, finished jobs) may expire. Request timeouts, internal intervals and the
// conditions of definitions use the system clock instead.
func (s *Server) Advance(d time.Duration) { s.simulation.Advance(d) }
