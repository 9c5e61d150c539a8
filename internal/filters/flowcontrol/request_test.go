package flowcontrol

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/request"
)

// within sets the deadline of a request like filters.Deadline.
func within(t *testing.T, r *http.Request, timeout time.Duration) *http.Request {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	t.Cleanup(cancel)
	return r.WithContext(ctx)
}

// oneSeat returns a level with one seat and a queue, and a schema for jane.
func oneSeat() []any {
	return []any{limited("narrow", 5, 0, queuing(1, 1)), flowSchema("narrow", "narrow", 10, user("jane"))}
}

// TestWaitLimit checks that a request waits for a quarter of its timeout, for the configured time
// if it has no deadline, and no longer than its context.
func TestWaitLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		timeout time.Duration // 0 means no deadline
		cancel  time.Duration // 0 means no cancellation
		want    time.Duration
		reason  string
	}{
		{"a quarter", 20 * time.Second, 0, 5 * time.Second, "time-out"},
		{"without a deadline", 0, 0, 15 * time.Second, "time-out"},
		{"at most a minute", time.Hour, 0, time.Minute, "time-out"},
		{"the client has disconnected", 20 * time.Second, 2 * time.Second, 2 * time.Second, "cancelled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newControl(t, 2, oneSeat()...)
				first := take(c, requestOf(t, "jane", "GET", "/api/v1/nodes/n"))
				defer first.End()
				r := requestOf(t, "jane", "GET", "/api/v1/nodes/n")
				if tt.timeout > 0 {
					r = within(t, r, tt.timeout)
				}
				if tt.cancel > 0 {
					ctx, cancel := context.WithCancel(r.Context())
					time.AfterFunc(tt.cancel, cancel)
					r = r.WithContext(ctx)
				}
				queued := take(c, r)
				if queued.Admitted() || queued.Waited() != tt.want {
					t.Errorf("admitted: %v after %v, want %v", queued.Admitted(), queued.Waited(), tt.want)
				}
				queued.End() // no effect
				s := samples{values: map[sampleKey]float64{}, histograms: nil}
				sampleFlow(&s, c.activeLevels["narrow"].set.FlowCounts(queued.flow.counters), "narrow", "narrow")
				if n := s.values[keyOf("rejected_requests_total", []string{"narrow", "narrow", tt.reason})]; n != 1 {
					t.Errorf("samples %v, want one rejection for %s", s.values, tt.reason)
				}
			})
		})
	}
}

// TestEnd checks that only the first call of End has an effect.
func TestEnd(t *testing.T) {
	t.Parallel()
	c := newControl(t, 2, oneSeat()...)
	queued := take(c, requestOf(t, "jane", "GET", "/version"))
	header := http.Header{}
	queued.SetHeaders(header)
	if got := header.Get("X-Kubernetes-PF-FlowSchema-UID") + " " + header.Get("X-Kubernetes-PF-PriorityLevel-UID"); got != "narrow-uid narrow-uid" {
		t.Errorf("headers: %s", got)
	}
	for range 3 {
		queued.End()
	}
	if d := c.activeLevels["narrow"].set.Dump(true); d.SeatsInUse != 0 || d.Executing != 0 || d.Dispatched != 1 {
		t.Errorf("dump after End: %+v", d)
	}
}

// TestDeletedLevel checks that executing and waiting requests of a deleted level complete, that new
// requests use another level, and that the level is removed with its last request.
func TestDeletedLevel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, 2, oneSeat()...)
		first := take(c, requestOf(t, "jane", "GET", "/version"))
		waiting := make(chan *Request)
		go func() { waiting <- take(c, requestOf(t, "jane", "GET", "/version")) }()
		synctest.Wait()
		c.removeLevel("narrow")
		if got := c.activeLevels["narrow"]; got == nil || !got.quiescing.Load() {
			t.Fatal("the level was deleted while it has requests")
		}
		if !strings.Contains(body(c, "dump_priority_levels"), "true,        1,               1,") {
			t.Errorf("dumped as\n%s", body(c, "dump_priority_levels"))
		}
		other := take(c, requestOf(t, "jane", "GET", "/version"))
		if other.flow.schema != "catch-all" || !other.Admitted() {
			t.Errorf("the schema of a new request is %s", other.flow.schema)
		}
		other.End()
		first.End()
		second := <-waiting
		if !second.Admitted() {
			t.Error("a waiting request was rejected")
		}
		second.End()
		if c.activeLevels["narrow"] != nil {
			t.Error("the level was not removed")
		}
	})
}

// TestMoreSeats checks that waiting requests are executed when a change of the level adds seats.
func TestMoreSeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, 10, limited("narrow", 1, 0, queuing(1, 1)), limited("wide", 94, 0, nil), flowSchema("narrow", "narrow", 10, user("jane")))
		requests := make(chan *Request)
		for range 5 {
			go func() { requests <- take(c, requestOf(t, "jane", "GET", "/version")) }()
		}
		first := <-requests
		synctest.Wait()
		if d := c.activeLevels["narrow"].set.Dump(false); d.Waiting != 4 {
			t.Errorf("%d requests are waiting, want 4", d.Waiting)
		}
		changed := limited("narrow", 1000, 0, queuing(1, 1))
		changed.Generation++
		c.set(changed)
		for range 4 {
			(<-requests).End()
		}
		first.End()
	})
}

// TestChangesUnderLoad checks that during changes of schemas and levels, every request is executed
// or rejected, and no seat is lost.
func TestChangesUnderLoad(t *testing.T) {
	t.Parallel()
	c := newControl(t, 8, oneSeat()...)
	var users, changes sync.WaitGroup
	stop := make(chan struct{})
	for n := range 8 {
		users.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for range 400 {
				r := requestOf(t, []string{"jane", "joe", "jack"}[random.IntN(3)], []string{"GET", "POST"}[random.IntN(2)], "/api/v1/pods")
				queued := take(c, within(t, r, 100*time.Millisecond))
				queued.SetHeaders(http.Header{})
				if !queued.Admitted() {
					_ = queued.RetryAfter()
				}
				queued.End()
			}
		})
	}
	changes.Go(func() {
		random := rand.New(rand.NewPCG(9, 9))
		for generation := int64(2); ; generation++ {
			select {
			case <-stop:
				return
			default:
			}
			l := limited("narrow", int32(random.IntN(9)), int32(random.IntN(100)), queuing(int32(1+random.IntN(9)), 1))
			s := flowSchema("narrow", []string{"narrow", "catch-all", "nope"}[random.IntN(3)], 10, user("joe"))
			l.Generation, s.Generation = generation, generation
			c.set(l, s)
			if random.IntN(3) == 0 {
				c.removeLevel("narrow")
			}
			_ = body(c, "dump_requests?includeRequestDetails=1")
		}
	})
	users.Wait()
	close(stop)
	changes.Wait()
	for name, l := range c.activeLevels {
		if d := l.set.Dump(true); d.SeatsInUse+d.SeatsWaiting+d.Executing+d.Waiting != 0 {
			t.Errorf("%s: dump %+v, want no requests", name, d)
		}
	}
}

// body returns the contents of a dump.
func body(c *Control, dump string) string {
	path, _, _ := strings.Cut(dump, "?")
	w := httptest.NewRecorder()
	c.Dumps()[DumpPrefix+path].ServeHTTP(w, httptest.NewRequest("GET", "/"+dump, nil))
	return w.Body.String()
}

// TestDumps checks that the dumps have the format of kube-apiserver.
func TestDumps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newControl(t, 2, oneSeat()...)
		queued := take(c, requestOf(t, "jane", "DELETE", "/apis/apps/v1/namespaces/a/deployments/d/scale"))
		waiting := make(chan *Request)
		go func() { waiting <- take(c, requestOf(t, "jane", "GET", "/version")) }()
		synctest.Wait()
		for dump, want := range map[string]string{
			"dump_priority_levels": `
PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, RejectedRequests, TimedoutRequests, CancelledRequests
catch-all,         0,            true,   false,       0,               0,                 0,                  0,                0,                0
exempt,            0,            true,   false,       0,               0,                 0,                  0,                0,                0
narrow,            1,            false,  false,       1,               1,                 1,                  0,                0,                0
`,
			"dump_queues": `
PriorityLevelName, Index,  PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR, InitialSeatsSum, MaxSeatsSum, TotalWorkSum
narrow,            0,      1,               1,                 1,          0.00300000ss,  1,               1,           0.00300000ss
`,
			"dump_requests": `
PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime,           InitialSeats, FinalSeats, AdditionalLatency, StartTime
narrow,            narrow,         0,          0,                   ,                2000-01-01T00:00:00Z, 1,            0,          0s,                0001-01-01T00:00:00Z
narrow,            narrow,         0,          -1,                  ,                2000-01-01T00:00:00Z, 1,            0,          0s,                2000-01-01T00:00:00Z
`,
		} {
			if got := "\n" + body(c, dump); got != want {
				t.Errorf("%s:%s\nwant%s", dump, got, want)
			}
		}
		if got := body(c, "dump_requests?includeRequestDetails=true"); !strings.Contains(got, "jane,     delete, /apis/apps/v1/namespaces/a/deployments/d/scale, a,         d,      apps/v1,    deployments, scale") {
			t.Errorf("dump with details: %s", got)
		}
		queued.End()
		(<-waiting).End()
	})
}

// TestMetrics checks that the metrics of two Controls are added up, and that a closed Control is not included.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newControl(t, 100), newControl(t, 100)
	for _, c := range []*Control{a, b} {
		c.config.Metrics = metrics
		for range 2 {
			defer take(c, requestOf(t, "jane", "GET", "/version")).End()
		}
	}
	value := func(name string) float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == metricPrefix+name {
				return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return 0
	}
	if got := fmt.Sprint(value("dispatched_requests_total"), value("current_executing_seats"), value("nominal_limit_seats")); got != "4 4 200" {
		t.Errorf("dispatched requests, current seats and nominal limit: %s, want 4 4 200", got)
	}
	b.Close()
	if got := value("dispatched_requests_total"); got != 2 {
		t.Errorf("dispatched requests after Close: %v, want 2", got)
	}
}

// BenchmarkRequest measures the cost of flow control for a request that does not wait.
func BenchmarkRequest(b *testing.B) {
	objects := append(bootstrapLevels(), flowSchema("service-accounts", "workload-low", 9000, group("system:serviceaccounts")))
	for i := range 8 {
		objects = append(objects, flowSchema(fmt.Sprint("other-", i), "system", int32(100+i), group("system:nodes"), account("kube-system", "*")))
	}
	c := newControl(b, 600, objects...)
	c.config.Stats = func(context.Context) (Stats, bool) { return Stats{100, 2000}, true }
	for _, bench := range []struct{ name, method, url string }{
		{"get", "GET", "/api/v1/namespaces/a/pods/p"}, {"update", "PUT", "/api/v1/namespaces/a/pods/p"}, {"list", "GET", "/api/v1/namespaces/a/pods?limit=500"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := requestOf(b, "system:serviceaccount:a:b", bench.method, bench.url)
			request.SetUser(r.Context(), &request.User{Name: "system:serviceaccount:a:b", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"}})
			header := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				queued := take(c, r)
				queued.SetHeaders(header)
				queued.End()
			}
		})
	}
}

// TestMetricFamilies compares names, types, labels and help with kube-apiserver's.
func TestMetricFamilies(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	c := newControl(t, 100)
	c.config.Metrics = metrics
	take(c, requestOf(t, "jane", "POST", "/api/v1/namespaces/a/pods")).End()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		var labels []string
		for _, label := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		got[f.GetName()] = strings.Join([]string{f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ","), f.GetHelp()}, "\t")
	}
	upstream, err := os.ReadFile("../../telemetry/testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(upstream)) {
		line = strings.TrimSuffix(line, "\n")
		name, _, _ := strings.Cut(line, "\t")
		if !strings.HasPrefix(name, metricPrefix) {
			continue
		}
		compared++
		if got[name] != line {
			t.Errorf("%s\nwant %s", got[name], line)
		}
	}
	if compared < 20 {
		t.Errorf("only %d families were compared", compared)
	}
}
