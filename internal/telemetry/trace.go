package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// SlowRequestThreshold is the minimum duration of a request whose trace is logged.
const SlowRequestThreshold = 500 * time.Millisecond

// maxSteps is the maximum number of steps of a trace; additional steps are dropped. A typical request has
// about ten.
const maxSteps = 16

// Trace records the steps of a request with their times. It costs one small allocation, because only the traces
// of slow requests are formatted. A nil *Trace records nothing. It is safe for concurrent use.
type Trace struct {
	start time.Time
	mu    struct {
		sync.Mutex
		steps []step
		first [6]step // avoids an allocation for usual requests
	}
}

type step struct {
	name  string
	at    time.Duration // since start
	attrs []slog.Attr
}

type traceKey struct{}

// NewTrace starts a trace and returns a context that contains it. start is the start time of the
// request.
func NewTrace(parent context.Context, start time.Time) (context.Context, *Trace) {
	t := &Trace{start: start}
	t.mu.steps = t.mu.first[:0]
	return context.WithValue(parent, traceKey{}, t), t
}

// Step records the completion of a step in the context's trace, and as an event of the context's span. name
// is in the past tense, such as "decoded body". Step takes ownership of attrs. It has no effect if the
// context has neither a trace nor a span.
func Step(ctx context.Context, name string, attrs ...slog.Attr) {
	tracing.Event(ctx, name)
	t, _ := ctx.Value(traceKey{}).(*Trace)
	t.step(name, attrs)
}

func (t *Trace) step(name string, attrs []slog.Attr) {
	if t == nil {
		return
	}
	at := time.Since(t.start)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.steps) < maxSteps {
		t.mu.steps = append(t.mu.steps, step{name: name, at: at, attrs: attrs})
	}
}

// LogSlow logs the trace if at least SlowRequestThreshold has passed since its start. attrs
// identify the request in the log.
func (t *Trace) LogSlow(ctx context.Context, logger *slog.Logger, attrs ...slog.Attr) {
	if t == nil {
		return
	}
	total := time.Since(t.start)
	if total < SlowRequestThreshold {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	attrs = append(attrs, slog.Duration("total", total))
	var before time.Duration
	for _, s := range t.mu.steps {
		took := slog.Duration("took", s.at-before)
		attrs = append(attrs, slog.Attr{Key: s.name, Value: slog.GroupValue(append([]slog.Attr{took}, s.attrs...)...)})
		before = s.at
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "slow request", attrs...)
}
