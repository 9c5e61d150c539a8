package host

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/telemetry"
)

// logDir is the folder that DebugConfig.ServeLogs serves, as in kube-apiserver.
const logDir = "/var/log"

// paths returns the handlers that belong to the process and not to an API, by path.
func (h *Host) paths() map[string]http.Handler {
	paths := map[string]http.Handler{
		SnapshotPath:    http.HandlerFunc(h.snapshot),
		StatisticsPath:  readOnly(h.recorder),
		"/metrics":      promhttp.HandlerFor(h.metrics.filter.Gatherer(h.metrics.registry), promhttp.HandlerOpts{}),
		"/metrics/slis": promhttp.HandlerFor(h.metrics.filter.Gatherer(h.metrics.slis), promhttp.HandlerOpts{}),
	}
	if !h.config.Debug.DisableProfiling {
		maps.Copy(paths, h.debugPaths())
	}
	if h.config.Debug.ServeLogs {
		paths["/logs"] = http.RedirectHandler("/logs/", http.StatusMovedPermanently)
		paths["/logs/"] = readOnly(http.StripPrefix("/logs", http.FileServer(http.Dir(logDir))))
	}
	if h.config.ControlPlane.Gates().Enabled(componentFlagz) {
		paths["/flagz"] = h.flagPage()
	}
	if h.config.ControlPlane.Gates().Enabled(componentStatusz) {
		listed := append(slices.Collect(maps.Keys(paths)), "/healthz", "/livez", "/readyz", "/statusz", "/version")
		listed = slices.DeleteFunc(listed, func(path string) bool { return strings.HasSuffix(path, "/") || strings.HasPrefix(path, "/debug") })
		slices.Sort(listed)
		paths["/statusz"] = h.statusPage(time.Now(), listed)
	}
	if h.config.Testing.Faults != nil {
		paths[faults.Path], paths[faults.Path+"/"] = h.config.Testing.Faults, h.config.Testing.Faults
		paths[faults.ClockPath] = faults.Clock(h.config.Testing.Simulation)
	}
	return paths
}

// readOnly rejects requests other than GET and HEAD.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeFailure(w, r, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// debugPaths returns the handlers of the paths below /debug.
func (h *Host) debugPaths() map[string]http.Handler {
	paths := map[string]http.Handler{
		"/debug/pprof":  http.RedirectHandler("/debug/pprof/", http.StatusMovedPermanently),
		"/debug/pprof/": http.HandlerFunc(pprofIndex),
	}
	if level := h.config.Debug.LogLevel; level != nil {
		paths["/debug/flags/v"] = verbosityHandler(level)
	}
	return paths
}

// maxVerbosityText is the maximum size of the body of a request to /debug/flags/v, in bytes.
const maxVerbosityText = 64

// verbosityHandler sets the verbosity of the log to the number in the body of a PUT request.
func verbosityHandler(level *slog.LevelVar) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		respond := func(code int, format string, args ...any) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.WriteHeader(code)
			fmt.Fprintf(w, format+"\n", args...)
		}
		if r.Method != http.MethodPut {
			respond(http.StatusNotAcceptable, "unsupported http method")
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxVerbosityText))
		if err != nil {
			respond(http.StatusBadRequest, "error reading request body: %v", err)
			return
		}
		verbosity, err := strconv.ParseUint(string(body), 10, 16)
		if err != nil {
			respond(http.StatusBadRequest, "failed set klog.logging.verbosity %s: %v", body, err)
			return
		}
		level.Set(telemetry.Verbosity(int(verbosity)))
		respond(http.StatusOK, "successfully set klog.logging.verbosity to %d", verbosity)
	})
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

// Routes lists the paths that the server handles. The server need not be running. The caller owns the slice.
// Routes returns the errors of controlplane.Routes.
func (h *Host) Routes() ([]controlplane.Route, error) {
	routes, err := controlplane.Routes(h.paths())
	return routes, err
}

// ListAdmission lists the admission plugins of the control plane that is served. The server need not be
// running. The caller owns the slice.
func (h *Host) ListAdmission() []controlplane.AdmissionPlugin {
	return h.config.ControlPlane.ListAdmission()
}
