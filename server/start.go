package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"mainstay.dev/mainstay/pki"
	"mainstay.dev/mainstay/storage/cache"
	"mainstay.dev/mainstay/storage/kv/embedded"
)

// openPKI reads or makes keys and certificates, and writes the administrator's
// kubeconfig.
func (s *Server) openPKI() error {
	var err error
	if s.authority, err = pki.Open(s.dir.pki()); err != nil {
		return err
	}
	if s.signer, err = pki.SigningKey(s.dir.pki()); err != nil {
		return err
	}
	if s.certs, err = newCertificates(s.config.TLS, s.files); err != nil {
		return err
	}
	if err := s.openUsers(); err != nil {
		return err
	}
	return s.renew()
}

func (s *Server) openStorage(ctx context.Context) error {
	if len(s.config.EtcdServers) > 0 {
		return s.openEtcd(ctx)
	}
	store, err := embedded.Open(embedded.Config{
		Dir:              s.dir.store(),
		Retention:        s.config.HistoryRetention,
		AcceptLostWrites: s.config.AcceptLostWrites,
		Logger:           s.logger,
		Registerer:       s.registry,
	})
	if err != nil {
		return s.dir.explainStore(err)
	}
	s.backend = store
	return nil
}

// startFeed lets caches follow the store, until stopFeed.
func (s *Server) startFeed() error {
	if s.config.WithoutWatchCache {
		return nil
	}
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: s.backend, Prefix: s.config.EtcdPrefix, Logger: s.logger, Registerer: s.registry})
	if err != nil {
		return fmt.Errorf("start the watch cache: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with stopFeed
		defer close(done)
		if err := feed.Run(ctx); err != nil {
			s.logger.Error("the watch cache stopped following the store", "err", err)
		}
	}()
	s.feed, s.stopFeed = feed, func() { cancel(); <-done }
	return nil
}

// serve listens, answers until ctx ends, and drains.
func (s *Server) serve(ctx context.Context) error {
	httpServer, err := s.newHTTPServer(s.chain(s.handler()))
	if err != nil {
		return err
	}
	listener, err := s.listen()
	if err != nil {
		return err
	}
	base := httpServer.TLSConfig.Clone()
	served := make(chan error, 1)
	go func() { served <- httpServer.ServeTLS(listener, "", "") }() // ends with Close or Shutdown below

	if s.config.OnServing != nil {
		s.config.OnServing(Serving{URL: s.url(), Kubeconfig: s.kubeconfig})
	}
	s.logger.Info("serving", "url", s.url())

	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	look := time.NewTicker(filesPeriod)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.stop(httpServer)
		case err := <-served:
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		case <-daily.C:
			if err := errors.Join(s.renew(), s.frontProxy.renew()); err != nil {
				s.logger.Error("renew certificates", "err", err)
			}
		case <-look.C:
			if err := s.lookAtFiles(base); err != nil {
				s.logger.Error("follow changed files", "err", err)
			}
		}
	}
}

// renew makes sure that the server's own certificates are good for some time,
// and that the administrator's kubeconfig goes with them.
func (s *Server) renew() error {
	trust := s.authority.Bundle()
	if s.certs.file == nil {
		own, err := s.authority.Serving(s.config.hosts())
		if err != nil {
			return err
		}
		s.certs.setOwn(own)
	} else {
		trust = s.certs.file.now.Load().pem
	}
	if left := time.Until(s.authority.Ends()); left < 365*24*time.Hour {
		s.logger.Warn("the certificate authority ends within a year", "ends", s.authority.Ends(), "folder", s.dir.pki())
	}
	var err error
	s.kubeconfig, err = writeKubeconfig(s.config.DataDir, s.url(), s.authority, trust)
	return err
}

// stop drains: from the first line on /readyz fails; after --shutdown-delay
// nothing new is taken; watches end at once, all else within the request
// timeout.
func (s *Server) stop(httpServer *http.Server) error {
	s.stopping.Store(true)
	s.logger.Info("stopping")
	time.Sleep(s.config.ShutdownDelay)

	patience, cancel := context.WithTimeout(context.Background(), s.config.RequestTimeout)
	defer cancel()
	if s.config.ShutdownRetryAfter {
		// The listener stays open so that clients hear when to come back.
		s.drain.SendRetryAfter()
		s.drain.EndLongRunning()
		s.endTunnels()
		s.drain.Refuse()
		s.awaitRequests(patience)
	} else {
		s.drain.Refuse()
		s.drain.EndLongRunning()
		s.endTunnels()
	}
	err := httpServer.Shutdown(patience)
	s.awaitRequests(patience) // those that took over their connection
	if err != nil {
		err = httpServer.Close()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the listener: %w", err)
	}
	s.logger.Info("stopped")
	return nil
}

func (s *Server) awaitRequests(ctx context.Context) {
	if err := s.drain.Wait(ctx); err != nil {
		s.logger.Warn("requests were still under way and are broken off", "after", s.config.RequestTimeout)
	}
}
