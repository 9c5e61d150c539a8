package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"mainstay.dev/mainstay/internal/egress"
)

// Config configures a Sink. All fields except Dial are required.
type Config struct {
	Options Options
	Metrics *Metrics
	Logger  *slog.Logger
	// FlushTimeout is the maximum time that Run spends on sending queued events after its context
	// ends.
	FlushTimeout time.Duration
	// Dial connects to the webhook. A nil Dial connects directly.
	Dial egress.Dial
}

// Sink sends events to the backends. Its methods are safe for concurrent use.
type Sink struct {
	config   Config
	backends []*backend
	buffers  sync.Pool // of *[]byte
}

// Open reads the policy file and opens the configured backends. It creates the log file and reads
// the webhook's kubeconfig, but does not connect to the webhook. The caller must call Sink.Run. If
// auditing is disabled, Open returns nil, nil, nil. It returns an error if the policy or the
// kubeconfig is invalid, even if auditing is disabled, or if the log file cannot be opened.
func Open(config Config) (*Rules, *Sink, error) {
	options := &config.Options
	hasBackend := options.Log.Path != "" || options.Webhook.ConfigFile != ""
	if options.PolicyFile == "" {
		if hasBackend {
			config.Logger.Warn("no audit policy file is configured; audit events are not recorded")
		}
		return nil, nil, nil
	}
	rules, err := openPolicy(options.PolicyFile, config.Logger)
	if err != nil || !hasBackend {
		return nil, nil, err
	}
	s := &Sink{config: config, buffers: sync.Pool{New: func() any { return new([]byte) }}}
	if options.Log.Path != "" {
		log, err := openLog(&options.Log)
		if err != nil {
			return nil, nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		s.add(log, &options.Log.BackendOptions, 1)
	}
	if options.Webhook.ConfigFile != "" {
		webhook, err := openWebhook(&options.Webhook, config.Dial)
		if err != nil {
			return nil, nil, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		s.add(webhook, &options.Webhook.BackendOptions, maxDeliveries)
	}
	return rules, s, nil
}

func openPolicy(path string, logger *slog.Logger) (*Rules, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: failed to read file path %q: %w", path, err)
	}
	policy, warnings, err := ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w: from file %s", err, path)
	}
	if len(warnings) > 0 {
		logger.Warn("ignoring unknown or duplicate fields of the audit policy", "file", path, "err", errors.Join(warnings...))
	}
	return NewRules(policy), nil
}

func (s *Sink) add(to output, options *BackendOptions, deliveries int) {
	b := &backend{output: to, options: options, losses: &losses{metrics: s.config.Metrics, logger: s.config.Logger, sometimes: rate.Sometimes{Interval: time.Second}}}
	b.sendContext, b.cancelSend = context.WithCancel(context.Background())
	if options.Mode == ModeBatch {
		b.queue = newQueue(b, deliveries)
	}
	s.backends = append(s.backends, b)
}

// Process sends an event to all backends. It blocks until backends in blocking modes have sent the
// event. It returns false if a backend in the mode blocking-strict could not send the event. It
// does not retain the event.
func (s *Sink) Process(event *Event) bool {
	s.config.Metrics.events.Inc()
	buffer := s.buffers.Get().(*[]byte)
	e := encode((*buffer)[:0], event)
	ok := true
	for _, b := range s.backends {
		ok = b.process(e) && ok
	}
	if cap(e.line) <= maxPooled {
		*buffer = e.line
	}
	s.buffers.Put(buffer)
	return ok
}

// maxPooled is the maximum size of a reused buffer, in bytes.
const maxPooled = 64 << 10

// Run sends queued events until ctx ends. It then spends up to FlushTimeout on sending the remaining events,
// closes the backends, and returns the first error of a backend. Run must be called once.
func (s *Sink) Run(ctx context.Context) error {
	var running errgroup.Group
	for _, b := range s.backends {
		running.Go(func() error { return b.run(ctx, s.config.FlushTimeout) })
	}
	return running.Wait()
}

// Metrics returns Config.Metrics.
func (s *Sink) Metrics() *Metrics { return s.config.Metrics }

// output is the destination of a backend.
type output interface {
	name() string
	// item returns the encoding of an event for this output. The result is valid only as long as
	// e.line is valid.
	item(e encoded) []byte
	// send sends items. If it returns an error, lost is the number of items that it could not send.
	// send does not retain the items.
	send(ctx context.Context, items [][]byte) (lost int, err error)
	close() error
}

// backend sends events to an output, according to its mode and limits.
type backend struct {
	output  output
	options *BackendOptions
	queue   *queue // nil in the blocking modes
	losses  *losses
	// sendContext is canceled at the end of Run, to abort pending sends.
	sendContext context.Context
	cancelSend  context.CancelFunc
}

// process sends or enqueues an event. It returns false if the event could not be sent and the
// request must therefore be rejected.
func (b *backend) process(e encoded) bool {
	e, ok := b.truncate(e)
	switch {
	case !ok:
		return true // as in kube-apiserver, the request continues even in the mode blocking-strict
	case b.queue != nil:
		b.queue.add(b.output.item(e))
		return true
	}
	if lost, err := b.output.send(b.sendContext, [][]byte{b.output.item(e)}); err != nil {
		b.losses.count(b.output.name(), lost, err)
		return b.options.Mode != ModeBlockingStrict
	}
	return true
}

// truncatedAnnotation is the key of the annotation that marks events whose bodies were removed.
const truncatedAnnotation = "audit.k8s.io/truncated"

// MarkTruncated adds the annotation that marks an event whose bodies were removed. It replaces
// e.Annotations with a copy, because the map may be shared.
func (e *Event) MarkTruncated() {
	e.Annotations = maps.Clone(e.Annotations)
	if e.Annotations == nil {
		e.Annotations = map[string]string{}
	}
	e.Annotations[truncatedAnnotation] = "true"
}

// truncate removes the bodies of an oversized event. It returns false if the event is then still
// too large.
func (b *backend) truncate(e encoded) (encoded, bool) {
	limit := &b.options.Truncate
	if !limit.Enabled || int64(len(e.line)) <= limit.MaxEventSize {
		return e, true
	}
	if e.event.Level.IncludesRequestBody() {
		small := *e.event
		small.RequestObject, small.ResponseObject = nil, nil
		small.MarkTruncated()
		e = encode(nil, &small)
	}
	if int64(len(e.line)) > limit.MaxEventSize {
		b.losses.count("truncate", 1, errTooLarge)
		return e, false
	}
	return e, true
}

var errTooLarge = errors.New("event is too large even after truncating")

func (b *backend) run(ctx context.Context, flushTimeout time.Duration) error {
	if b.queue != nil {
		b.queue.run(ctx, flushTimeout)
	}
	<-ctx.Done()
	b.cancelSend()
	return b.output.close()
}

// losses counts lost events, and logs at most one message per second.
type losses struct {
	metrics   *Metrics
	logger    *slog.Logger
	sometimes rate.Sometimes
}

func (l *losses) count(plugin string, events int, err error) {
	l.metrics.errors.WithLabelValues(plugin).Add(float64(events))
	l.sometimes.Do(func() {
		l.logger.Error("audit events are lost; apiserver_audit_error_total counts them", "plugin", plugin, "events", events, "err", err)
	})
}
