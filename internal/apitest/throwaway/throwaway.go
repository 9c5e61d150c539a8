// Package throwaway runs a server inside a program, for as long as a test or a command
// needs one. It is not for servers that outlive the program that started them.
package throwaway

import (
	"context"

	"mainstay.dev/mainstay/internal/host"
)

// Server is a server that is ready.
type Server struct {
	Host *host.Host
	host.Serving
	stop  context.CancelFunc
	ended chan struct{} // closed when the server has ended
	err   error         // with which it has; read after ended
}

// Start starts a server and waits until it is ready. ctx bounds the wait only; the server runs
// until Stop.
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

// Ended is closed when the server has ended, with Stop or without.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Stop stops the server and waits until it has ended. It returns the error with which
// it did.
func (s *Server) Stop() error {
	s.stop()
	<-s.ended
	return s.err
}
