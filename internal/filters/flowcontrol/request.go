package flowcontrol

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// Request is the state of one request in flow control. It must be used by one goroutine, except End,
// which is safe for concurrent use.
type Request struct {
	request fairqueue.Request
	control *Control
	flow    *flow
	// distinguisher and user are used only by dumps; info also by metrics.
	distinguisher string
	user          *request.User
	info          *request.Info
	outcome       fairqueue.Outcome
	arrived       time.Time
	waited        time.Duration
	ended         atomic.Bool
}

// maxWait is the maximum queuing time of any request.
const maxWait = time.Minute

// NewRequest classifies a request and executes, enqueues or rejects it. It does not block. If MustWait
// returns true, the caller must call Wait. If Admitted returns true then, the caller must call End;
// otherwise, it must reject the request. The context of r must contain a user and a request.Info.
func (c *Control) NewRequest(r *http.Request) *Request {
	ctx := r.Context()
	user, info := request.UserFrom(ctx), request.InfoFrom(ctx)
	f := c.configured().find(user, info)
	t := &Request{control: c, flow: f, user: user, info: info, arrived: time.Now()}
	t.distinguisher = f.distinguish(user, info)
	t.request.Flow, t.request.Data = f.counters, t
	if f.queues {
		t.request.Hash = f.hash(c.seed, t.distinguisher)
	}
	var watches int
	t.request.Work, watches = c.estimate(f, r, info)
	f.metrics.estimated(t.request.Work.Seats(), watches)
	c.adjustIfDue(t.arrived)
	t.setOutcome(t.arrived, f.level.set.Start(t.arrived, &t.request))
	return t
}

// setOutcome records the outcome of queuing.
func (t *Request) setOutcome(now time.Time, outcome fairqueue.Outcome) {
	t.outcome = outcome
	if t.Admitted() {
		t.control.kinds.of(t.info).executing.Add(now, 1)
	}
	if outcome != fairqueue.Waiting && !t.flow.exempt {
		t.flow.metrics.waited(t.Admitted(), t.waited)
	}
}

// MustWait reports whether the request is queued, so that the caller must call Wait.
func (t *Request) MustWait() bool { return t.outcome == fairqueue.Waiting }

// Wait blocks until the request is admitted or rejected. A request is rejected when a quarter of
// its time until the deadline has passed, after Config.MaxWait if it has no deadline, or when ctx
// ends.
func (t *Request) Wait(ctx context.Context) {
	t.flow.metrics.queued(t.flow.level.set.QueueLength(&t.request))
	waiting := t.control.kinds.of(t.info).waiting
	waiting.Add(t.arrived, 1)
	outcome := t.wait(ctx, t.arrived.Add(t.control.waitLimit(ctx, t.arrived)))
	now := time.Now()
	waiting.Add(now, -1)
	t.waited = now.Sub(t.arrived)
	t.setOutcome(now, outcome)
}

// wait waits for the outcome, and adjusts borrowed seats periodically.
func (t *Request) wait(ctx context.Context, deadline time.Time) fairqueue.Outcome {
	c, set := t.control, t.flow.level.set
	for {
		until := c.nextAdjustment()
		if until.After(deadline) {
			until = deadline
		}
		if outcome := set.Wait(ctx, &t.request, until); outcome != fairqueue.Waiting {
			return outcome
		}
		if !time.Now().Before(deadline) {
			return set.Cancel(&t.request, fairqueue.TimeOut)
		}
		c.adjustIfDue(time.Now())
	}
}

// waitLimit returns the maximum remaining queuing time of a request.
func (c *Control) waitLimit(ctx context.Context, now time.Time) time.Duration {
	limit := c.config.MaxWait
	if deadline, has := ctx.Deadline(); has {
		received := request.Received(ctx)
		if received.IsZero() {
			received = now
		}
		limit = received.Add(deadline.Sub(received) / 4).Sub(now)
	}
	return min(limit, maxWait)
}

// Admitted reports whether the request may be executed.
func (t *Request) Admitted() bool { return t.outcome == fairqueue.Executing }

// Waited returns the queuing time of the request. It is 0 before Wait returns.
func (t *Request) Waited() time.Duration { return t.waited }

// End releases the seats of an admitted request: call it when the request is complete or, for a
// watch, when its initial events have been sent. Only the first call has an effect.
func (t *Request) End() {
	if !t.Admitted() || t.ended.Swap(true) {
		return
	}
	now := time.Now()
	took := t.flow.level.set.Finish(now, &t.request)
	t.flow.metrics.ended(t.info, took)
	t.control.kinds.of(t.info).executing.Add(now, -1)
	t.control.adjustIfDue(now)
	if t.flow.level.quiescing.Load() && t.flow.level.set.Idle() {
		t.control.removeIdleLevels()
	}
}

// AddWatch counts an admitted watch until RemoveWatch is called with the same Info. The work of a
// write is estimated by the number of watches that it notifies.
func (c *Control) AddWatch(info *request.Info) { c.watches.add(info, 1) }

// RemoveWatch removes a watch that AddWatch counted.
func (c *Control) RemoveWatch(info *request.Info) { c.watches.add(info, -1) }

// Canonical names of the response headers with the classification of a request.
const (
	schemaHeader = "X-Kubernetes-Pf-Flowschema-Uid"
	levelHeader  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// SetHeaders adds the UIDs of the schema and level to the response header. The names are not sent,
// because only administrators may read them.
func (t *Request) SetHeaders(header http.Header) {
	header[schemaHeader], header[levelHeader] = t.flow.schemaUID, t.flow.levelUID
}

// RetryAfter counts a rejection of the request, and returns the Retry-After for the client, in
// seconds. Call it once per rejected request.
func (t *Request) RetryAfter() int64 { return t.flow.level.retry.reject(time.Now().Unix()) }
