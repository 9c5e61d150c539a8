package audit

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sinkOf opens a sink with a policy that records everything. end stops the sink and waits for it.
func sinkOf(t *testing.T, change func(*Options)) (s *Sink, end func()) {
	t.Helper()
	options := NewOptions()
	options.PolicyFile = filepath.Join(t.TempDir(), "policy.yaml")
	writeFile(t, options.PolicyFile, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]")
	change(&options)
	if err := options.Check(); err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	_, s, err = Open(Config{Options: options, Metrics: metrics, Logger: slog.New(slog.DiscardHandler), FlushTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lost returns the number of events that a plugin has lost.
func (s *Sink) lost(plugin string) int {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.config.Metrics.errors)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == plugin {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	return 0
}

func numbered(i int) *Event {
	return &Event{Level: LevelRequestResponse, Stage: StageResponseComplete, AuditID: fmt.Sprint(i)}
}

// idsIn returns the audit IDs of the events in a log, in order.
func idsIn(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		var event Event
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Kind != "Event" || event.APIVersion != APIVersion {
			t.Fatalf("decode the event %s: %v", line, err)
		}
		ids = append(ids, event.AuditID)
	}
	return ids
}

// TestLog checks, for every mode, that each event is a line of the log file, and that only the
// owner may read the file.
func TestLog(t *testing.T) {
	t.Parallel()
	for _, mode := range Modes() {
		for _, size := range []int{0, 1} {
			path := filepath.Join(t.TempDir(), "new", "audit.log")
			s, end := sinkOf(t, func(o *Options) { o.Log.Path, o.Log.Mode, o.Log.MaxSize = path, mode, size })
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for k := range 100 {
						if !s.Process(numbered(100*i + k)) {
							t.Error("Process rejected an event")
						}
					}
				})
			}
			wg.Wait()
			end()
			if ids := idsIn(t, path); len(ids) != 400 {
				t.Errorf("%s: %d lines", mode, len(ids))
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode of the file: %v, %v", info.Mode(), err)
			}
		}
	}
}

func TestLegacyLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	s, end := sinkOf(t, func(o *Options) { o.Log.Path, o.Log.Format = path, FormatLegacy })
	s.Process(numbered(1))
	end()
	if text, _ := os.ReadFile(path); !strings.Contains(string(text), ` AUDIT: id="1" stage="ResponseComplete" `) || !strings.HasSuffix(string(text), "\n") {
		t.Errorf("log %s, want a line in the legacy format", text)
	}
}

// TestRotation checks that no events are lost when the log is rotated by size, and that old files
// are compressed.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, end := sinkOf(t, func(o *Options) { o.Log.Path, o.Log.MaxSize, o.Log.Compress = filepath.Join(dir, "audit.log"), 1, true })
	padding := Body([]byte(`"` + strings.Repeat("x", 100<<10) + `"`))
	for i := range 25 {
		event := numbered(i)
		event.RequestObject = padding
		s.Process(event)
		time.Sleep(time.Millisecond) // names of rotated files have a resolution of one millisecond
	}
	end()
	lines := func() (n int) {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			n += strings.Count(contents(file), "\n")
		}
		return n
	}
	compressed := func() int {
		files, _ := filepath.Glob(filepath.Join(dir, "audit-*.gz"))
		return len(files)
	}
	eventually(t, func() bool { return compressed() == 2 && lines() == 25 })
	if s.lost(nameLog) != 0 {
		t.Errorf("%d events were lost", s.lost(nameLog))
	}
}

// contents returns the uncompressed text of a file, or "" if it cannot be read yet.
func contents(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(from)
	if err != nil {
		return ""
	}
	return string(text)
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition was not met in time")
		}
	}
}

// fullDisk is a file with limited space. A write beyond the limit writes the part that fits and
// returns an error.
type fullDisk struct {
	room int
	text strings.Builder
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}
func (d *fullDisk) Close() error { return nil }

// TestFullDisk checks that events are counted as lost when the disk is full, that requests fail
// only in the strict mode, and that the next event starts on a new line.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for mode, continues := range map[string]bool{ModeBlocking: true, ModeBlockingStrict: false} {
		s, end := sinkOf(t, func(o *Options) { o.Log.Path, o.Log.Mode = filepath.Join(t.TempDir(), "x"), mode })
		disk := &fullDisk{room: 10}
		s.backends[0].output.(*logFile).file = disk
		for i := range 3 {
			if got := s.Process(numbered(i)); got != continues {
				t.Errorf("%s: Process = %t, want %t", mode, got, continues)
			}
		}
		disk.room = 1 << 20
		if !s.Process(numbered(3)) {
			t.Error("Process rejected an event although there is space")
		}
		end()
		lines := strings.Split(disk.text.String(), "\n")
		if len(lines) != 3 || !strings.Contains(lines[1], `"auditID":"3"`) || s.lost(nameLog) != 3 {
			t.Errorf("%q, %d lost", lines, s.lost(nameLog))
		}
	}
}

// TestDevFull checks writes to /dev/full, which always fail.
func TestDevFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	s, end := sinkOf(t, func(o *Options) { o.Log.Path, o.Log.MaxSize = "/dev/full", 0 })
	if !s.Process(numbered(1)) || s.lost(nameLog) != 1 {
		t.Errorf("%d events were lost", s.lost(nameLog))
	}
	end()
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	s, end := sinkOf(t, func(o *Options) {
		o.Log.Path = path
		o.Log.Truncate = TruncateOptions{Enabled: true, MaxEventSize: 1000, MaxBatchSize: 2000}
	})
	large := numbered(1)
	large.RequestObject = Body([]byte(`"` + strings.Repeat("x", 1000) + `"`))
	s.Process(large)
	if large.RequestObject == nil || large.Annotations != nil {
		t.Error("the event itself was changed")
	}
	tooLarge := numbered(2)
	tooLarge.RequestURI = strings.Repeat("x", 1000)
	s.Process(tooLarge)
	s.Process(numbered(3))
	end()
	if ids := idsIn(t, path); strings.Join(ids, " ") != "1 3" || s.lost("truncate") != 1 {
		t.Errorf("%s, %d lost", ids, s.lost("truncate"))
	}
	if text := contents(path); strings.Contains(text, "requestObject") || !strings.Contains(text, `"audit.k8s.io/truncated":"true"`) {
		t.Errorf("log %s, want truncated events", text)
	}
}

// collector is a webhook that records the received batches.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	batches [][]Event
}

func newCollector(t *testing.T, handler func(http.ResponseWriter) bool) (*collector, string) {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !handler(w) {
			return
		}
		var list EventList
		if err := json.Unmarshal(body, &list); err != nil || list.Kind != "EventList" || list.APIVersion != APIVersion || strings.Contains(string(body), `"kind":"Event"`) {
			t.Errorf("decode the list of events %s: %v", body, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.batches = append(c.batches, list.Items)
	}))
	t.Cleanup(c.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, fmt.Sprintf(`{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"b","user":"c"}}],
		"clusters":[{"name":"b","cluster":{"server":"%s/audit"}}],"users":[{"name":"c","user":{}}]}`, c.URL))
	return c, path
}

func (c *collector) got() (events int, batches []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, batch := range c.batches {
		events += len(batch)
		batches = append(batches, len(batch))
	}
	return events, batches
}

func always(http.ResponseWriter) bool { return true }

// TestWebhookFlush checks that an incomplete batch is sent when the sink is closed.
func TestWebhookFlush(t *testing.T) {
	t.Parallel()
	c, file := newCollector(t, always)
	s, end := sinkOf(t, func(o *Options) { o.Webhook.ConfigFile, o.Webhook.Batch.MaxWait = file, time.Hour })
	for i := range 450 {
		s.Process(numbered(i))
	}
	end()
	if events, batches := c.got(); events != 450 || len(batches) != 2 {
		t.Errorf("%d events in %v", events, batches)
	}
	s.Process(numbered(0))
	if s.lost(nameBuffered) != 1 {
		t.Error("an event after the end is not counted as lost")
	}
}

// TestBatchSize checks that a batch larger than the maximum size is split if truncation is enabled.
func TestBatchSize(t *testing.T) {
	t.Parallel()
	c, file := newCollector(t, always)
	s, end := sinkOf(t, func(o *Options) {
		o.Webhook.ConfigFile = file
		o.Webhook.Truncate = TruncateOptions{Enabled: true, MaxEventSize: 1000, MaxBatchSize: 1000}
	})
	for i := range 20 {
		s.Process(numbered(i))
	}
	end()
	if events, batches := c.got(); events != 20 || len(batches) < 4 {
		t.Errorf("%d events in %v", events, batches)
	}
}

// TestWebhookBlocking checks that an event is delivered to the webhook before the request
// continues.
func TestWebhookBlocking(t *testing.T) {
	t.Parallel()
	c, file := newCollector(t, always)
	s, end := sinkOf(t, func(o *Options) { o.Webhook.ConfigFile, o.Webhook.Mode = file, ModeBlockingStrict })
	defer end()
	if !s.Process(numbered(1)) {
		t.Error("Process rejected the event")
	}
	if events, _ := c.got(); events != 1 {
		t.Errorf("%d events", events)
	}
}

// TestWebhookErrors checks that an event is sent five times to a webhook that returns errors.
func TestWebhookErrors(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	for _, code := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusFound} {
		asked.Store(0)
		c, file := newCollector(t, func(w http.ResponseWriter) bool {
			asked.Add(1)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			return false
		})
		s, end := sinkOf(t, func(o *Options) {
			o.Webhook.ConfigFile, o.Webhook.Mode, o.Webhook.InitialBackoff = file, ModeBlockingStrict, time.Millisecond
		})
		if s.Process(numbered(1)) || s.lost(nameWebhook) != 1 || asked.Load() != webhookAttempts {
			t.Errorf("status %d: %d calls, %d events lost", code, asked.Load(), s.lost(nameWebhook))
		}
		end()
		c.Close()
	}
}

// TestWebhookDown checks that queued events are delivered once a failed webhook is available again.
func TestWebhookDown(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	failures := 2
	c, file := newCollector(t, func(w http.ResponseWriter) bool {
		mu.Lock()
		defer mu.Unlock()
		if failures--; failures >= 0 {
			panic(http.ErrAbortHandler)
		}
		return true
	})
	s, end := sinkOf(t, func(o *Options) {
		o.Webhook.ConfigFile, o.Webhook.InitialBackoff, o.Webhook.Batch.MaxWait = file, time.Millisecond, time.Millisecond
	})
	s.Process(numbered(1))
	end()
	if events, _ := c.got(); events != 1 || s.lost(nameWebhook) != 0 {
		t.Errorf("%d events, %d lost", events, s.lost(nameWebhook))
	}
}

// TestWebhookSlow checks that requests do not wait for the webhook, and that dropped events are
// counted.
func TestWebhookSlow(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	c, file := newCollector(t, func(http.ResponseWriter) bool { <-answer; return true })
	s, end := sinkOf(t, func(o *Options) {
		o.Webhook.ConfigFile = file
		o.Webhook.Batch = BatchOptions{BufferSize: 10, MaxSize: 1}
	})
	const sent = 10 * (maxDeliveries + 20)
	for i := range sent {
		if !s.Process(numbered(i)) {
			t.Error("a request was rejected")
		}
	}
	lost := s.lost(nameBuffered)
	if lost == 0 {
		t.Error("no event was dropped")
	}
	close(answer)
	end()
	if events, _ := c.got(); events != sent-lost {
		t.Errorf("%d events arrived and %d were lost, of %d", events, lost, sent)
	}
}

// TestQueueBytes checks that the total size of queued events is limited.
func TestQueueBytes(t *testing.T) {
	t.Parallel()
	q := &queue{items: make(chan []byte, 10)}
	q.bytes.Store(maxQueued - 10)
	if err := q.tryAdd(make([]byte, 11)); !errors.Is(err, errQueueFull) {
		t.Error(err)
	}
	if err := q.tryAdd(make([]byte, 10)); err != nil {
		t.Error(err)
	}
}

// TestOpen checks that invalid options are rejected with a one-line error.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	writeFile(t, good, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]")
	writeFile(t, bad, "nonsense: [")
	log := filepath.Join(dir, "log")
	for name, test := range map[string]struct {
		policy, log, webhook, want string
	}{
		"nothing":               {},
		"only a policy":         {policy: good},
		"only a bad policy":     {policy: bad, want: "loading audit policy file: failed decoding: "},
		"only a log":            {log: log},
		"no policy file":        {policy: filepath.Join(dir, "none"), log: log, want: "loading audit policy file: failed to read file path"},
		"a bad policy":          {policy: bad, log: log, want: "loading audit policy file: failed decoding: "},
		"a folder as log file":  {policy: good, log: dir, want: "--audit-log-path: create the audit log: open " + dir},
		"an invalid kubeconfig": {policy: good, webhook: good, want: "--audit-webhook-config-file: initializing audit webhook: "},
	} {
		options := NewOptions()
		options.PolicyFile, options.Log.Path, options.Webhook.ConfigFile = test.policy, test.log, test.webhook
		rules, sink, err := Open(Config{Options: options, Logger: slog.New(slog.DiscardHandler)})
		if rules != nil || sink != nil {
			t.Errorf("%s: Open returned rules or a sink", name)
		}
		if (err == nil) != (test.want == "") || err != nil && (!strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"": func(*Options) {},
		"invalid audit log mode x, allowed modes are \"batch,blocking,blocking-strict\"":                                    func(o *Options) { o.Log.Mode = "x" },
		"invalid audit log format x, allowed formats are \"legacy,json\"":                                                   func(o *Options) { o.Log.Format = "x" },
		"--audit-log-maxage -1 can't be a negative number":                                                                  func(o *Options) { o.Log.MaxAge = -1 },
		"invalid audit batch webhook buffer size 0, must be a positive number":                                              func(o *Options) { o.Webhook.Batch.BufferSize = 0 },
		"invalid audit batch webhook max batch size -1, must be a positive number":                                          func(o *Options) { o.Webhook.Batch.MaxSize = -1 },
		"invalid audit batch webhook throttle QPS 0, must be a positive number":                                             func(o *Options) { o.Webhook.Batch.ThrottleQPS = 0 },
		"invalid audit batch webhook throttle burst 0, must be a positive number":                                           func(o *Options) { o.Webhook.Batch.ThrottleBurst = 0 },
		"invalid audit truncate log max event size 0, must be a positive number":                                            func(o *Options) { o.Log.Truncate.MaxEventSize = 0 },
		"invalid audit truncate log max batch size 1, must be greater than max event size (102400)":                         func(o *Options) { o.Log.Truncate.MaxBatchSize = 1 },
		"invalid audit log version audit.k8s.io/v1beta1: invalid group version, allowed versions are [\"audit.k8s.io/v1\"]": func(o *Options) { o.Log.Version = "audit.k8s.io/v1beta1" },
	} {
		options := NewOptions()
		options.Log.Path, options.Webhook.ConfigFile = "x", "x"
		change(&options)
		got := ""
		if err := options.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if err := (&Options{}).Check(); err != nil {
		t.Error(err)
	}
}
