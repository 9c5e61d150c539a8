package host

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/telemetry"
)

// paths returns the handlers of the process, which are not part of any API.
func (h *Host) paths() map[string]http.Handler {
	paths := map[string]http.Handler{
		SnapshotPath:    http.HandlerFunc(h.snapshot),
		"/metrics":      promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{}),
		"/metrics/slis": promhttp.HandlerFor(h.slis, promhttp.HandlerOpts{}),
	}
	if !h.config.WithoutProfiling {
		paths["/debug/pprof"] = http.RedirectHandler("/debug/pprof/", http.StatusMovedPermanently)
		paths["/debug/pprof/"] = http.HandlerFunc(pprofIndex)
	}
	if h.config.Options.Gates().Enabled(componentFlagz) {
		paths["/flagz"] = h.flagPage()
	}
	if h.config.Options.Gates().Enabled(componentStatusz) {
		listed := append(slices.Collect(maps.Keys(paths)), "/healthz", "/livez", "/readyz", "/statusz", "/version")
		listed = slices.DeleteFunc(listed, func(path string) bool { return strings.HasSuffix(path, "/") || strings.HasPrefix(path, "/debug") })
		slices.Sort(listed)
		paths["/statusz"] = h.statusPage(time.Now(), listed)
	}
	if h.config.Faults != nil {
		paths[faults.Path], paths[faults.Path+"/"] = h.config.Faults, h.config.Faults
		paths[faults.ClockPath] = faults.Clock(h.config.World)
	}
	return paths
}

// hold retains the newest revision of the store until release.
func (h *Host) hold(ctx context.Context) (revision int64, release func(), err error) {
	held, release, err := h.backend.Hold(ctx, 0)
	return int64(held), release, err
}

// pprofIndex handles all paths below /debug/pprof/.
func pprofIndex(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/debug/pprof/profile":
		pprof.Profile(w, r)
	case "/debug/pprof/symbol":
		pprof.Symbol(w, r)
	case "/debug/pprof/trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}

// Routes lists the paths that the server handles. The server need not run.
func (h *Host) Routes() ([]controlplane.Route, error) {
	routes, err := controlplane.Routes(h.paths())
	return routes, err
}

// ListAdmission lists the admission plugins of the control plane that is served. The
// server need not run.
func (h *Host) ListAdmission() []controlplane.AdmissionPlugin {
	return h.config.Options.ListAdmission()
}

var errStopping = errors.New("the server is shutting down")

// shutdownCheck fails during shutdown, so that load balancers send no more clients.
func (h *Host) shutdownCheck() telemetry.Check {
	return telemetry.Check{Name: "shutdown", Run: func(context.Context) error {
		if h.stopping.Load() {
			return errStopping
		}
		return nil
	}}
}
