package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/request"
)

func TestLogger(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config LogConfig
		want   []string
		not    []string
	}{
		{"text", LogConfig{}, []string{"level=INFO msg=hello name=a"}, []string{"detail"}},
		{"json", LogConfig{Format: FormatJSON}, []string{`"level":"INFO","msg":"hello","name":"a"`}, []string{"detail"}},
		{"verbose", LogConfig{Verbosity: 4}, []string{"level=V4 msg=detail"}, []string{"msg=more"}},
		{"secrets", LogConfig{}, []string{"token=[redacted]", "Authorization=[redacted]"}, []string{"hunter2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			tt.config.Output = &out
			logger, err := NewLogger(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			logger.Info("hello", "name", "a")
			logger.Log(t.Context(), Verbosity(4), "detail")
			logger.Log(t.Context(), Verbosity(5), "more")
			logger.Info("login", "token", "hunter2", slog.Group("headers", "Authorization", "hunter2"))
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the log does not contain %q:\n%s", want, out.String())
				}
			}
			for _, not := range tt.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("the log contains %q:\n%s", not, out.String())
				}
			}
		})
	}
	if _, err := NewLogger(LogConfig{Output: io.Discard, Format: "xml"}); err == nil {
		t.Error("an unknown format was accepted")
	}
}

// TestLogIsBounded checks that long values are truncated.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	for _, format := range []string{FormatText, FormatJSON} {
		var out bytes.Buffer
		logger, err := NewLogger(LogConfig{Output: &out, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("ä", 1<<20)
		logger.Info("refused", "value", long, "err", errors.New(long), "left", true)
		if line := out.String(); len(line) > 3*maxValueSize || !strings.Contains(line, " ...") || !strings.Contains(line, "left") {
			t.Errorf("%s: a line of %d bytes: %.100s", format, len(line), line)
		}
	}
}

func TestLogWriterCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		log := NewLogWriter(writer)
		check := log.Check()
		if err := check.Run(t.Context()); err != nil {
			t.Errorf("before any line: %v", err)
		}
		go io.WriteString(log, "a line that nobody reads yet")
		time.Sleep(time.Minute)
		if err := check.Run(t.Context()); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := check.Run(t.Context()); err == nil || check.Name != "log" {
			t.Errorf("after three minutes: %v", err)
		}
		go io.Copy(io.Discard, reader)
		synctest.Wait()
		if err := check.Run(t.Context()); err != nil {
			t.Errorf("after the line was read: %v", err)
		}
		reader.Close()
	})
}

func TestTrace(t *testing.T) {
	t.Parallel()
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&out, nil))
			ctx, trace := NewTrace(t.Context(), time.Now())
			time.Sleep(100 * time.Millisecond)
			Step(ctx, "decoded", slog.Int("bytes", 7))
			if slow {
				time.Sleep(500 * time.Millisecond)
			}
			for range 2 * maxSteps {
				Step(ctx, "stored")
			}
			trace.LogSlow(ctx, logger, slog.String("URI", "/a"))
			if !slow {
				if out.Len() > 0 {
					t.Errorf("a fast request was logged: %s", out.String())
				}
				return
			}
			for _, want := range []string{`msg="slow request"`, "URI=/a", "total=600ms", "decoded.took=100ms", "decoded.bytes=7", "stored.took=500ms"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the trace does not contain %q: %s", want, out.String())
				}
			}
		})
	}
	Step(t.Context(), "outside a request") // no effect without a trace
	(*Trace)(nil).LogSlow(t.Context(), slog.Default())
}

// TestHealth checks responses, which have the format of kube-apiserver, because probes and users
// read them.
func TestHealth(t *testing.T) {
	t.Parallel()
	good := func(context.Context) error { return nil }
	bad := func(context.Context) error { return errors.New("secret reason") }
	tests := []struct {
		name, url string
		checks    []Check
		code      int
		body      string
	}{
		{"healthy", "/readyz", []Check{Ping(), {Name: "etcd", Run: good}}, 200, "ok"},
		{"verbose", "/readyz?verbose", []Check{Ping(), {Name: "etcd", Run: good}}, 200, "[+]ping ok\n[+]etcd ok\nreadyz check passed\n"},
		{"excluded", "/readyz?verbose&exclude=etcd", []Check{Ping(), {Name: "etcd", Run: bad}}, 200, "[+]ping ok\n[+]etcd excluded: ok\nreadyz check passed\n"},
		{"two excluded", "/readyz?exclude=etcd,ping", []Check{{Name: "ping", Run: bad}, {Name: "etcd", Run: bad}}, 200, "ok"},
		{"excluded with its group", "/readyz?verbose&exclude=etcd", []Check{{Name: "etcd", Run: bad}, {Name: "etcd-override-0", Group: "etcd", Run: bad}, {Name: "a", Group: "b", Run: good}}, 200,
			"[+]etcd excluded: ok\n[+]etcd-override-0 excluded: ok\n[+]a ok\nreadyz check passed\n"},
		{"excluded but unknown", "/readyz?verbose&exclude=nope", []Check{Ping()}, 200,
			"[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"nope\"\nreadyz check passed\n"},
		{"bad", "/readyz", []Check{Ping(), {Name: "etcd", Run: bad}}, 500, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"},
		{"bad but informational", "/readyz", []Check{Ping(), {Name: "backup", Informational: true, Run: bad}}, 200, "ok"},
		{"bad but informational, verbose", "/readyz?verbose", []Check{Ping(), {Name: "backup", Informational: true, Run: bad}}, 200,
			"[+]ping ok\n[-]backup failed: reason withheld\nreadyz check passed\n"},
		{"one bad informational check", "/readyz/backup", []Check{{Name: "backup", Informational: true, Run: bad}}, 500, "internal server error: secret reason\n"},
		{"one check", "/readyz/etcd", []Check{Ping(), {Name: "etcd", Run: good}}, 200, "ok"},
		{"one bad check", "/readyz/etcd", []Check{{Name: "etcd", Run: bad}}, 500, "internal server error: secret reason\n"},
		{"a check with slashes", "/readyz/poststarthook/a", []Check{{Name: "poststarthook/a", Run: good}}, 200, "ok"},
		{"no such check", "/readyz/nope", []Check{Ping()}, 404, "404 page not found\n"},
		{"an extra slash", "/readyz/", []Check{Ping()}, 404, "404 page not found\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			health := NewHealth("/readyz", slog.New(slog.DiscardHandler), NewHealthMetrics(prometheus.NewRegistry()), tt.checks...)
			got := httptest.NewRecorder()
			health.ServeHTTP(got, httptest.NewRequest("GET", tt.url, nil))
			if got.Code != tt.code || got.Body.String() != tt.body {
				t.Errorf("response %d %q, want %d %q", got.Code, got.Body, tt.code, tt.body)
			}
			if contentType := got.Header().Get("Content-Type"); contentType != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type: %s", contentType)
			}
		})
	}
}

// TestNamesAreKubernetes compares the metrics with the metrics of a running kube-apiserver, which are
// recorded in testdata/metrics.tsv.
func TestNamesAreKubernetes(t *testing.T) {
	t.Parallel()
	registry := NewRegistry(Build{Major: "1", Minor: "37", GitVersion: "v1.37.0"})
	health := NewHealthMetrics(registry)
	health.state.WithLabelValues("a", "readyz").Set(1)
	health.total.WithLabelValues("a", "success", "readyz").Inc()
	requests := NewRequests(registry)
	d := Request{Verb: "LIST", Resource: "pods", Version: "v1", Scope: "cluster", Component: "apiserver"}
	requests.Completed(d, 200, time.Second, 0, 7)
	requests.LongRunning(d)
	requests.Terminated(d, 429)
	requests.Aborted(d)
	requests.Deprecated(&request.Info{Resource: "endpoints", Version: "v1"}, "")
	requests.WatchEvents(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, 2, 100)
	requests.HandshakeError()

	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := upstreamFamilies(t)
	compared := 0
	for _, family := range families {
		name := family.GetName()
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, label.GetName())
		}
		slices.Sort(labels)
		got := []string{strings.ToLower(family.GetType().String()), strings.Join(labels, ","), family.GetHelp()}
		if diff := cmp.Diff(want[name], got); diff != "" {
			t.Errorf("%s (-kube-apiserver +got):\n%s", name, diff)
		}
		compared++
	}
	if compared < 15 {
		t.Errorf("only %d families were compared", compared)
	}
}

func upstreamFamilies(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open("testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	families := make(map[string][]string)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Split(lines.Text(), "\t"); len(fields) == 4 {
			families[fields[0]] = fields[1:]
		}
	}
	return families
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	pods := Request{Version: "v1", Resource: "pods", Component: "apiserver"}
	with := func(verb, scope string, change func(*Request)) Request {
		d := pods
		d.Verb, d.Scope = verb, scope
		if change != nil {
			change(&d)
		}
		return d
	}
	tests := []struct {
		method, url, contentType string
		want                     Request
	}{
		{"GET", "/api/v1/namespaces/a/pods/x", "", with("GET", "resource", nil)},
		{"HEAD", "/api/v1/namespaces/a/pods/x", "", with("GET", "resource", nil)},
		{"GET", "/api/v1/namespaces/a/pods", "", with("LIST", "namespace", nil)},
		{"GET", "/api/v1/pods", "", with("LIST", "cluster", nil)},
		{"GET", "/api/v1/pods?watch=1", "", with("WATCH", "cluster", nil)},
		{"POST", "/api/v1/namespaces/a/pods?dryRun=All", "", with("POST", "resource", func(d *Request) { d.DryRun = "All" })},
		{"PUT", "/api/v1/namespaces/a/pods/x/status", "", with("PUT", "resource", func(d *Request) { d.Subresource = "status" })},
		{"PATCH", "/api/v1/namespaces/a/pods/x", "application/merge-patch+json", with("PATCH", "resource", nil)},
		{"PATCH", "/api/v1/namespaces/a/pods/x", "application/apply-patch+yaml", with("APPLY", "resource", nil)},
		{"DELETE", "/api/v1/namespaces/a/pods/x", "", with("DELETE", "resource", nil)},
		{"DELETE", "/api/v1/namespaces/a/pods", "", with("DELETECOLLECTION", "namespace", nil)},
		{"POST", "/api/v1/namespaces/a/pods/x/exec", "", with("CONNECT", "resource", func(d *Request) { d.Subresource = "exec" })},
		{"GET", "/readyz", "", Request{Verb: "GET", Subresource: "/readyz"}},
		{"BREW", "/coffee", "", Request{Verb: "OTHER", Subresource: "/coffee"}},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(tt.method, tt.url, nil)
		r.Header.Set("Content-Type", tt.contentType)
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, Describe(r, &info, true)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.method, tt.url, diff)
		}
		unknown := Describe(r, &info, false)
		if unknown.Resource != "" || unknown.Subresource != "" || unknown.Group != "" {
			t.Errorf("%s %s: a value from the client became a label: %+v", tt.method, tt.url, unknown)
		}
	}
}

func TestWatermark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mark Watermark
		for range 3 {
			mark.Inc()
		}
		mark.Dec()
		mark.Dec()
		if got := mark.Max(); got != 3 {
			t.Errorf("immediately: %d, want 3", got)
		}
		time.Sleep(time.Second)
		if got := mark.Max(); got != 3 {
			t.Errorf("a second later: %d, want 3", got)
		}
		time.Sleep(time.Second)
		if got := mark.Max(); got != 1 {
			t.Errorf("two seconds later: %d, want 1", got)
		}
	})
}

func BenchmarkCompleted(b *testing.B) {
	requests := NewRequests(prometheus.NewRegistry())
	d := Request{Verb: "GET", Resource: "pods", Version: "v1", Scope: "resource", Component: "apiserver"}
	b.ReportAllocs()
	for b.Loop() {
		requests.Completed(d, 200, time.Millisecond, 0, 1000)
	}
}

// TestDeleteResource checks that all series of a deleted resource are deleted, and that the series
// of another resource are kept.
func TestDeleteResource(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewRequests(registry)
	count := func(resource string) {
		for _, verb := range []string{"GET", "LIST", "WATCH", "POST"} {
			d := Request{Verb: verb, Group: "example.com", Version: "v1", Resource: resource, Scope: "resource", Component: "apiserver"}
			m.LongRunning(d)()
			m.Completed(d, 200, time.Second, 0, 1)
			m.Terminated(d, 200)
			m.Aborted(d)
		}
		m.WatchEvents(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: resource}, 1, 1)
		m.Deprecated(&request.Info{Group: "example.com", Version: "v1", Resource: resource}, "")
	}
	series := func(resource string) (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.Metric {
				for _, label := range metric.Label {
					if label.GetName() == "resource" && label.GetValue() == resource {
						n++
					}
				}
			}
		}
		return n
	}
	count("permanent")
	want := series("permanent")
	for range 2 { // the second time, the resource was recreated
		count("temporary")
		if got := series("temporary"); got != want || got == 0 {
			t.Errorf("%d series; want %d", got, want)
		}
		m.DeleteResource(schema.GroupResource{Group: "example.com", Resource: "temporary"})
		if got := series("temporary"); got != 0 {
			t.Errorf("%d series are left", got)
		}
	}
	if got := series("permanent"); got != want {
		t.Errorf("%d series of the other resource; want %d", got, want)
	}
}
