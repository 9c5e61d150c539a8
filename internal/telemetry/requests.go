package telemetry

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
)

// component is the value of the component label for resource requests.
const component = "apiserver"

// Requests contains the request metrics, with kube-apiserver's names, labels and buckets. All
// methods are safe for concurrent use.
type Requests struct {
	total        *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	sli          *prometheus.HistogramVec
	size         *prometheus.HistogramVec
	longRunning  *prometheus.GaugeVec
	terminations *prometheus.CounterVec
	aborts       *prometheus.CounterVec
	postTimeout  *prometheus.CounterVec
	deprecated   *prometheus.GaugeVec
	watchEvents  *prometheus.CounterVec
	watchSizes   *prometheus.HistogramVec
	handshakes   prometheus.Counter
	mutating     Watermark
	readOnly     Watermark
	// queuedMutating and queuedReadOnly count requests in queues.
	queuedMutating, queuedReadOnly Watermark

	// series maps each seriesKey to its *series. It is a cache, because a Prometheus lookup by nine
	// labels is more expensive than some requests.
	series sync.Map
	// watches maps each schema.GroupVersionResource to its watchSeries.
	watches sync.Map
	// mu is held while series are created or deleted.
	mu struct {
		sync.Mutex
		// keys contains the keys of series, by resource.
		keys map[schema.GroupResource][]seriesKey
	}
}

// NewRequests creates and registers the metrics. It panics if they are already registered.
func NewRequests(registerer prometheus.Registerer) *Requests {
	labels := []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}
	without := func(name string) []string {
		var rest []string
		for _, label := range labels {
			if label != name {
				rest = append(rest, label)
			}
		}
		return rest
	}
	seconds := []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
	m := &Requests{
		total: counter("apiserver_request_total",
			"[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
			append(labels[:len(labels):len(labels)], "code")...),
		duration: histogram("apiserver_request_duration_seconds",
			"[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			seconds, labels...),
		sli: histogram("apiserver_request_sli_duration_seconds",
			"[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
			seconds[2:], without("dry_run")...),
		size: histogram("apiserver_response_sizes",
			"[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
			prometheus.ExponentialBuckets(1000, 10, 7), without("dry_run")...),
		longRunning: gauge("apiserver_longrunning_requests",
			"[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
			without("dry_run")...),
		terminations: counter("apiserver_request_terminations_total",
			"[ALPHA] Number of requests which apiserver terminated in self-defense.",
			"verb", "group", "version", "resource", "subresource", "scope", "code"),
		aborts: counter("apiserver_request_aborts_total",
			"[ALPHA] Number of requests which apiserver aborted possibly due to a timeout, for each group, version, verb, resource, subresource and scope",
			"verb", "group", "version", "resource", "subresource", "scope"),
		postTimeout: counter("apiserver_request_post_timeout_total",
			"[ALPHA] Tracks the activity of the request handlers after the associated requests have been timed out by the apiserver", "source", "status"),
		deprecated: gauge("apiserver_requested_deprecated_apis",
			"[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
			"group", "version", "resource", "subresource", "removed_release"),
		watchEvents: counter("apiserver_watch_events_total", "[ALPHA] Number of events sent in watch clients", "group", "version", "resource"),
		watchSizes: histogram("apiserver_watch_events_sizes", "[ALPHA] Watch event size distribution in bytes",
			prometheus.ExponentialBuckets(1024, 2, 8), "group", "version", "resource"),
		handshakes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_tls_handshake_errors_total", Help: "[ALPHA] Number of requests dropped with 'TLS handshake error from' error",
		}),
	}
	m.mu.keys = map[schema.GroupResource][]seriesKey{}
	registerer.MustRegister(m.total, m.duration, m.sli, m.size, m.longRunning, m.terminations, m.aborts, m.postTimeout,
		m.deprecated, m.watchEvents, m.watchSizes, m.handshakes, m.inFlightGauge("mutating", &m.mutating), m.inFlightGauge("readOnly", &m.readOnly),
		m.inQueueGauge("mutating", &m.queuedMutating), m.inQueueGauge("readOnly", &m.queuedReadOnly))
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func (m *Requests) inFlightGauge(kind string, mark *Watermark) prometheus.Collector {
	return mark.gauge("apiserver_current_inflight_requests",
		"[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last second.", kind)
}

func (m *Requests) inQueueGauge(kind string, mark *Watermark) prometheus.Collector {
	return mark.gauge("apiserver_current_inqueue_requests", "[ALPHA] Maximal number of queued requests in this apiserver per request kind in last second.", kind)
}

// PostTimeout is the state of the handler of a request that timed out.
type PostTimeout string

// The handler is still running (pending), has returned, or has panicked.
const (
	PostTimeoutPending PostTimeout = "pending"
	PostTimeoutOK      PostTimeout = "ok"
	PostTimeoutPanic   PostTimeout = "panic"
)

// AfterTimeout counts the state of a handler whose request has timed out. The caller counts
// PostTimeoutPending first, and the final state when the handler ends.
func (m *Requests) AfterTimeout(status PostTimeout) {
	m.postTimeout.WithLabelValues("timeout-handler", string(status)).Inc()
}

// Request contains the metric labels of a request.
type Request struct {
	// Verb is GET, LIST, WATCH, POST, PUT, PATCH, APPLY, DELETE, DELETECOLLECTION or CONNECT; for
	// non-resource requests, it is the HTTP method.
	Verb, DryRun                          string
	Group, Version, Resource, Subresource string
	// Scope is resource, namespace or cluster; it is empty for non-resource requests.
	Scope string
	// Component is "apiserver" for resource requests; it is empty otherwise.
	Component string
}

// Describe returns the labels of a request; info may be nil. known reports whether the server serves the
// resource or path. For an unknown resource or path, the labels contain only the method, because otherwise
// clients could create an unlimited number of series.
func Describe(r *http.Request, info *request.Info, known bool) Request {
	d := Request{Verb: httpVerb(r.Method)}
	if info == nil || !known {
		return d
	}
	if !info.IsResource {
		d.Subresource = info.Path
		return d
	}
	d.Verb = resourceVerb(r, info)
	d.Group, d.Version, d.Resource, d.Subresource = info.Group, info.Version, info.Resource, info.Subresource
	d.Scope, d.Component = scope(info), component
	if strings.Contains(r.URL.RawQuery, "dryRun=All") {
		d.DryRun = "All"
	}
	return d
}

func httpVerb(method string) string {
	switch method {
	case http.MethodHead, http.MethodGet:
		return http.MethodGet
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect:
		return method
	}
	return "OTHER"
}

func resourceVerb(r *http.Request, info *request.Info) string {
	switch info.Subresource {
	case "exec", "attach", "portforward", "proxy":
		return http.MethodConnect
	}
	switch info.Verb {
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	case "deletecollection":
		return "DELETECOLLECTION"
	case "patch":
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch+") {
			return "APPLY"
		}
	}
	return httpVerb(r.Method)
}

func scope(info *request.Info) string {
	switch {
	case info.Name != "" || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

type seriesKey struct {
	Request
	code int
}

type series struct {
	total               prometheus.Counter
	duration, sli, size prometheus.Observer
}

// Completed counts a completed request with its status code, its duration, the part of it that the service
// level indicator excludes (queues of flow control and webhooks), and the size of the response body in bytes.
func (m *Requests) Completed(d Request, code int, took, excluded time.Duration, size int64) {
	s := m.seriesOf(seriesKey{d, code})
	s.total.Inc()
	s.duration.Observe(took.Seconds())
	if s.sli != nil {
		s.sli.Observe((took - excluded).Seconds())
	}
	if s.size != nil {
		s.size.Observe(float64(size))
	}
}

func (m *Requests) seriesOf(key seriesKey) *series {
	if found, ok := m.series.Load(key); ok {
		return found.(*series)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.series.Load(key); ok {
		return found.(*series)
	}
	s := m.newSeries(&key)
	m.series.Store(key, s)
	resource := schema.GroupResource{Group: key.Group, Resource: key.Resource}
	m.mu.keys[resource] = append(m.mu.keys[resource], key)
	return s
}

func (m *Requests) newSeries(key *seriesKey) *series {
	d := &key.Request
	s := &series{
		total:    m.total.WithLabelValues(d.Verb, d.DryRun, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, d.Component, statusText(key.code)),
		duration: m.duration.WithLabelValues(d.Verb, d.DryRun, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, d.Component),
	}
	if d.Verb != "WATCH" && d.Verb != http.MethodConnect { // clients determine the duration of these requests
		s.sli = m.sli.WithLabelValues(d.withoutDryRun()...)
	}
	if d.Verb == http.MethodGet || d.Verb == "LIST" {
		s.size = m.size.WithLabelValues(d.withoutDryRun()...)
	}
	return s
}

// DeleteResource deletes the series of a resource that is no longer served, so that the number of
// series remains limited when definitions are created and deleted.
func (m *Requests) DeleteResource(resource schema.GroupResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.mu.keys[resource] {
		m.series.Delete(key)
		m.deleteSeries(&key)
	}
	delete(m.mu.keys, resource)
	m.deprecated.DeletePartialMatch(prometheus.Labels{"group": resource.Group, "resource": resource.Resource})
}

// deleteSeries deletes all series with the labels of a key.
func (m *Requests) deleteSeries(key *seriesKey) {
	d, code := &key.Request, statusText(key.code)
	m.total.DeleteLabelValues(d.Verb, d.DryRun, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, d.Component, code)
	m.duration.DeleteLabelValues(d.Verb, d.DryRun, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, d.Component)
	for _, vec := range []*prometheus.MetricVec{m.sli.MetricVec, m.size.MetricVec, m.longRunning.MetricVec} {
		vec.DeleteLabelValues(d.withoutDryRun()...)
	}
	m.terminations.DeleteLabelValues(d.Verb, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, code)
	m.aborts.DeleteLabelValues(d.Verb, d.Group, d.Version, d.Resource, d.Subresource, d.Scope)
	m.watches.Delete(schema.GroupVersionResource{Group: d.Group, Version: d.Version, Resource: d.Resource})
	for _, vec := range []*prometheus.MetricVec{m.watchEvents.MetricVec, m.watchSizes.MetricVec} {
		vec.DeleteLabelValues(d.Group, d.Version, d.Resource)
	}
}

func (d Request) withoutDryRun() []string {
	return []string{d.Verb, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, d.Component}
}

// statusText returns the label value for a status code. An invalid code, which a backend of the
// aggregation layer can send, counts as 500.
func statusText(code int) string {
	if code < 100 || code > 599 {
		code = http.StatusInternalServerError
	}
	return strconv.Itoa(code)
}

// LongRunning counts a long-running request as active until the caller calls done.
func (m *Requests) LongRunning(d Request) (done func()) {
	active := m.longRunning.WithLabelValues(d.withoutDryRun()...)
	active.Inc()
	return active.Dec
}

// Terminated counts a request that the server rejected or aborted to protect itself.
func (m *Requests) Terminated(d Request, code int) {
	m.terminations.WithLabelValues(d.Verb, d.Group, d.Version, d.Resource, d.Subresource, d.Scope, statusText(code)).Inc()
}

// Aborted counts a request whose response was started but not completed.
func (m *Requests) Aborted(d Request) {
	m.aborts.WithLabelValues(d.Verb, d.Group, d.Version, d.Resource, d.Subresource, d.Scope).Inc()
}

// Deprecated records a request for a deprecated API. removedIn is the release that removes the API,
// or empty if it is unknown.
func (m *Requests) Deprecated(info *request.Info, removedIn string) {
	m.deprecated.WithLabelValues(info.Group, info.Version, info.Resource, info.Subresource, removedIn).Set(1)
}

// WatchEvents counts events that a watch sent in one batch. bytes is the total size of the events.
func (m *Requests) WatchEvents(resource schema.GroupVersionResource, events, bytes int) {
	if events <= 0 {
		return
	}
	found, ok := m.watches.Load(resource)
	if !ok {
		found, _ = m.watches.LoadOrStore(resource, watchSeries{
			total: m.watchEvents.WithLabelValues(resource.Group, resource.Version, resource.Resource),
			size:  m.watchSizes.WithLabelValues(resource.Group, resource.Version, resource.Resource),
		})
	}
	s := found.(watchSeries)
	s.total.Add(float64(events))
	for range events {
		s.size.Observe(float64(bytes / events))
	}
}

type watchSeries struct {
	total prometheus.Counter
	size  prometheus.Observer
}

// HandshakeError counts a failed TLS handshake.
func (m *Requests) HandshakeError() { m.handshakes.Inc() }

// Mutating returns the counter of mutating requests in flight, excluding long-running requests.
func (m *Requests) Mutating() *Watermark { return &m.mutating }

// ReadOnly returns the counter of read-only requests in flight, excluding long-running requests.
func (m *Requests) ReadOnly() *Watermark { return &m.readOnly }

// QueuedMutating returns the counter of mutating requests that wait in a queue.
func (m *Requests) QueuedMutating() *Watermark { return &m.queuedMutating }

// QueuedReadOnly returns the counter of read-only requests that wait in a queue.
func (m *Requests) QueuedReadOnly() *Watermark { return &m.queuedReadOnly }

// Watermark counts requests in flight or in queues, and records the recent maximum. The zero value
// is ready for use. It is safe for concurrent use.
type Watermark struct {
	current atomic.Int64
	mu      struct {
		sync.Mutex
		second   int64 // the second in which highest was measured, in Unix time
		highest  int64
		previous int64 // highest of the previous second
	}
}

// gauge returns a gauge of the recent maximum. kind is the value of the request_kind label.
func (m *Watermark) gauge(name, help, kind string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"request_kind": kind}},
		func() float64 { return float64(m.Max()) })
}

// Inc adds a request. Each call must be paired with a call to Dec.
func (m *Watermark) Inc() {
	now := m.current.Add(1)
	second := time.Now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(second)
	m.mu.highest = max(m.mu.highest, now)
}

// Dec removes a request.
func (m *Watermark) Dec() { m.current.Add(-1) }

// Max returns the maximum count since the beginning of the previous second.
func (m *Watermark) Max() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(time.Now().Unix())
	return max(m.mu.highest, m.mu.previous)
}

func (m *Watermark) advanceLocked(second int64) {
	if second == m.mu.second {
		return
	}
	m.mu.previous = 0
	if second == m.mu.second+1 {
		m.mu.previous = m.mu.highest
	}
	m.mu.second, m.mu.highest = second, m.current.Load()
}
