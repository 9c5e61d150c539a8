package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/telemetry"
)

// paths are the server's own paths, which are no API resources. They are set
// before the server listens and do not change afterwards.
type paths struct {
	exact    map[string]http.Handler
	prefixes []prefix // the longest that fits is taken
}

type prefix struct {
	path    string
	handler http.Handler
}

func newPaths() *paths { return &paths{exact: make(map[string]http.Handler)} }

// handle answers for a path, and, where it ends in a slash, for all below it.
func (p *paths) handle(path string, handler http.Handler) {
	if strings.HasSuffix(path, "/") && path != "/" {
		p.prefixes = append(p.prefixes, prefix{path, handler})
		slices.SortFunc(p.prefixes, func(a, b prefix) int { return len(b.path) - len(a.path) })
		return
	}
	p.exact[path] = handler
}

func (p *paths) has(path string) bool { return p.exact[path] != nil }

func (p *paths) find(path string) http.Handler {
	if handler := p.exact[path]; handler != nil {
		return handler
	}
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(path, prefix.path) {
			return prefix.handler
		}
	}
	return nil
}

// ownPaths lists what installPaths answers for.
func ownPaths(config Config) []string {
	list := []string{"/", openIDConfigurationPath, openIDKeysPath, "/healthz", "/livez", SnapshotPath, "/metrics", "/metrics/slis", "/readyz", "/version"}
	if !config.WithoutProfiling {
		list = append(list, "/debug/pprof")
	}
	slices.Sort(list)
	return list
}

func (s *Server) installPaths() error {
	versionJSON, err := json.MarshalIndent(versionInfo(build(s.config.Version)), "", "  ")
	if err != nil {
		return fmt.Errorf("encode the version: %w", err)
	}
	version := static("application/json", versionJSON)
	s.paths.handle("/version", version)
	s.paths.exact["/version/"] = version

	s.paths.handle("/", http.HandlerFunc(s.serveIndex))
	if err := s.installOpenID(); err != nil {
		return err
	}

	slis := prometheus.NewRegistry()
	metrics := telemetry.NewHealthMetrics(slis)
	s.paths.handle(SnapshotPath, http.HandlerFunc(s.snapshot))
	s.paths.handle("/metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	s.paths.handle("/metrics/slis", promhttp.HandlerFor(slis, promhttp.HandlerOpts{}))
	for path, checks := range s.checks() {
		for _, check := range checks {
			s.checkPaths = append(s.checkPaths, path+"/"+check.Name)
		}
		health := telemetry.NewHealth(path, s.logger, metrics, checks...)
		s.paths.handle(path, health)
		s.paths.handle(path+"/", health)
	}
	if !s.config.WithoutProfiling {
		s.paths.handle("/debug/pprof", http.RedirectHandler("/debug/pprof/", http.StatusMovedPermanently))
		s.paths.handle("/debug/pprof/", http.HandlerFunc(pprof.Index))
		s.paths.exact["/debug/pprof/profile"] = http.HandlerFunc(pprof.Profile)
		s.paths.exact["/debug/pprof/symbol"] = http.HandlerFunc(pprof.Symbol)
		s.paths.exact["/debug/pprof/trace"] = http.HandlerFunc(pprof.Trace)
	}
	return nil
}

// serveIndex lists all paths under which something is found, as of now.
func (s *Server) serveIndex(w http.ResponseWriter, _ *http.Request) {
	list := slices.Concat(ownPaths(s.config), s.checkPaths, s.api.Paths())
	slices.Sort(list)
	body, err := json.MarshalIndent(map[string][]string{"paths": list}, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // a client that went away cannot be told
}

func static(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body) // a client that went away cannot be told
	})
}

// alive is a check of the store that passes where a restart would not help: a
// full disk or a damaged file is there afterwards, too, and meanwhile nobody
// could read.
func alive(check telemetry.Check) telemetry.Check {
	return telemetry.Check{Name: check.Name, Run: func(ctx context.Context) error {
		err := check.Run(ctx)
		if errors.Is(err, kv.ErrNoSpace) || errors.Is(err, kv.ErrCorrupt) {
			return nil
		}
		return err
	}}
}

// checks are the health checks by path, under the names of kube-apiserver where
// it has the same.
func (s *Server) checks() map[string][]telemetry.Check {
	storage := func(name string, timeout time.Duration) telemetry.Check {
		return telemetry.Check{Name: name, Run: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return s.backend.Health(ctx)
		}}
	}
	live := append([]telemetry.Check{telemetry.Ping()}, s.config.Checks...)
	live = append(live, alive(storage("etcd", s.config.EtcdHealthTimeout)))
	ready := append(slices.Clone(live), storage("etcd-readiness", s.config.EtcdReadyTimeout))
	ready = append(ready, s.api.Ready...)
	ready = append(ready, telemetry.Check{Name: "shutdown", Run: func(context.Context) error {
		if s.stopping.Load() {
			return fmt.Errorf("the server is shutting down")
		}
		return nil
	}})
	return map[string][]telemetry.Check{"/healthz": live, "/livez": live, "/readyz": ready}
}
