// Package throwaway runs a server inside a test or a command, for at most the lifetime of the process.
package throwaway

import (
	"context"

	"mainstay.dev/mainstay/internal/host"
)

// Server is a started server. It is safe for concurrent use.
type Server struct {
	Host *host.Host
	host.Serving
	stop  context.CancelFunc
	ended chan struct{} // closed when the server has ended
	err   error         // result of Run; valid after ended is closed
}

// Start starts a server and waits until the server is ready. ctx limits only the wait; the server then runs
// until Stop is called. If the server does not start, Start returns the server's error, or the error of ctx if
// ctx has ended. Start overwrites config.OnServing.
func Start(ctx context.Context, config host.Config) (*Server, error) {
	s := &Server{ended: make(chan struct{})}
	ready := make(chan host.Serving, 1)
	config.OnServing = func(serving host.Serving) { ready <- serving }
	var err error
	if s.Host, err = host.New(config); err != nil {
		return nil, err
	}
	lifetime, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	defer context.AfterFunc(ctx, stop)()
	go func() { // ends with Stop
		defer close(s.ended)
		s.err = s.Host.Run(lifetime)
	}()
	select {
	case s.Serving = <-ready:
		return s, nil
	case <-s.ended:
		s.stop()
		if s.err == nil {
			s.err = ctx.Err() // stopped before it served
		}
		return nil, s.err
	}
}

// Ended returns a channel that is closed when the server has ended, with or without Stop.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Stop stops the server, waits until it has ended, and returns its error. It may be called more
// than once.
func (s *Server) Stop() error {
	s.stop()
	<-s.ended
	return s.err
}
