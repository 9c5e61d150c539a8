package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Check is one health check of a server.
type Check struct {
	// Name is the last segment of the check's path, /readyz/NAME.
	Name string
	// Group is a second name by which a request can exclude the check. Several checks can share a
	// group. Group may be empty.
	Group string
	// Informational checks are listed and have their own paths and metrics, but their failure does
	// not make the whole list fail.
	Informational bool
	// Run returns nil if the check passes. The error is logged, and sent to clients only in
	// responses at the path of this check. Run may be called concurrently, and must return when the
	// context is done.
	Run func(context.Context) error
}

// matches reports whether a name in ?exclude= refers to the check.
func (c Check) matches(name string) bool {
	return name == c.Name || c.Group != "" && name == c.Group
}

// Ping returns a check that always passes.
func Ping() Check { return Check{Name: "ping", Run: func(context.Context) error { return nil }} }

// Health serves a list of checks at a path such as /readyz, and each check at a path below it.
// Responses have the format of kube-apiserver. For each request, the checks run in sequence. A
// Health is immutable and safe for concurrent use.
type Health struct {
	path   string
	checks []Check
	logger *slog.Logger
	state  *prometheus.GaugeVec
	total  *prometheus.CounterVec
}

// HealthMetrics contains the metrics of /metrics/slis. All health paths of a server share one
// HealthMetrics. It is safe for concurrent use.
type HealthMetrics struct {
	state *prometheus.GaugeVec
	total *prometheus.CounterVec
}

// NewHealthMetrics creates and registers the metrics. It panics if they are already registered.
func NewHealthMetrics(registerer prometheus.Registerer) *HealthMetrics {
	m := &HealthMetrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck.",
		}, []string{"name", "status", "type"}),
	}
	registerer.MustRegister(m.state, m.total)
	return m
}

// NewHealth returns a Health that serves checks at path, in the given order.
func NewHealth(path string, logger *slog.Logger, metrics *HealthMetrics, checks ...Check) *Health {
	return &Health{path: path, checks: checks, logger: logger, state: metrics.state, total: metrics.total}
}

// ServeHTTP serves the path and all paths below it.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == h.path {
		h.serveAll(w, r)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, h.path+"/")
	i := slices.IndexFunc(h.checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	if err := h.run(r.Context(), h.checks[i]); err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "ok")
}

func (h *Health) serveAll(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	exclude := excluded(query["exclude"])
	unmatched := slices.Clone(exclude)
	var lines strings.Builder
	var failed []string
	for _, check := range h.checks {
		if slices.ContainsFunc(exclude, check.matches) {
			unmatched = slices.DeleteFunc(unmatched, check.matches)
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := h.run(r.Context(), check); err != nil {
			// The reason may disclose internals, and anonymous users may read this path.
			fmt.Fprintf(&lines, "[-]%s failed: reason withheld\n", check.Name)
			if check.Informational {
				continue
			}
			failed = append(failed, fmt.Sprintf("%s: %v", check.Name, err))
			continue
		}
		fmt.Fprintf(&lines, "[+]%s ok\n", check.Name)
	}
	if len(unmatched) > 0 {
		fmt.Fprintf(&lines, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(unmatched))
	}
	name := strings.TrimPrefix(h.path, "/")
	switch {
	case len(failed) > 0:
		h.logger.WarnContext(r.Context(), "health check failed", "path", h.path, "failed", failed)
		http.Error(w, lines.String()+name+" check failed", http.StatusInternalServerError)
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s%s check passed\n", lines.String(), name)
	default:
		io.WriteString(w, "ok")
	}
}

func (h *Health) run(ctx context.Context, check Check) error {
	kind := strings.TrimPrefix(h.path, "/")
	err := check.Run(ctx)
	state, status := 1.0, "success"
	if err != nil {
		state, status = 0, "error"
	}
	h.state.WithLabelValues(check.Name, kind).Set(state)
	h.total.WithLabelValues(check.Name, status, kind).Inc()
	return err
}

// excluded splits the values of ?exclude=a,b&exclude=c and removes duplicates.
func excluded(values []string) []string {
	var names []string
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func quoted(names []string) string {
	slices.Sort(names)
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(parts, ",")
}
