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

// NewRequest classifies a request and executes, enqueues or rejects it. It does not block. If MustWait returns
// true, the caller must call Wait. If Admitted returns true after that, the caller must call End; otherwise,
// the caller must reject the request. The context of r must contain a user and a request.Info.
func (c *Control) NewRequest(r *http.Request) *Request {
	ctx := r.Context()
	user, info := request.UserFrom(ctx), request.InfoFrom(ctx)
	f := c.configured().find(user, info)
	q := &Request{control: c, flow: f, user: user, info: info, arrived: time.Now()}
	q.distinguisher = f.distinguish(user, info)
	q.request.Flow, q.request.Data = f.counters, q
	if f.queues {
		q.request.Hash = f.hash(c.seed, q.distinguisher)
	}
	var watches int
	q.request.Work, watches = c.estimate(f, r, info)
	f.metrics.estimated(q.request.Work.Seats(), watches)
	c.adjustIfDue(q.arrived)
	q.setOutcome(q.arrived, f.level.set.Start(q.arrived, &q.request))
	return q
}

// setOutcome records the outcome of queuing.
func (q *Request) setOutcome(now time.Time, outcome fairqueue.Outcome) {
	q.outcome = outcome
	if q.Admitted() {
		q.control.kinds.of(q.info).executing.Add(now, 1)
	}
	if outcome != fairqueue.Waiting && !q.flow.exempt {
		q.flow.metrics.waited(q.Admitted(), q.waited)
	}
}

// MustWait reports whether the request is queued, so that the caller must call Wait.
func (q *Request) MustWait() bool { return q.outcome == fairqueue.Waiting }

// Wait blocks until the request is admitted or rejected. A request is rejected when a quarter of
// the time between its arrival and its deadline has passed. It is also rejected after
// Config.MaxWait if it has no deadline, after one minute, and when ctx ends.
func (q *Request) Wait(ctx context.Context) {
	q.flow.metrics.queued(q.flow.level.set.QueueLength(&q.request))
	waiting := q.control.kinds.of(q.info).waiting
	waiting.Add(q.arrived, 1)
	outcome := q.wait(ctx, q.arrived.Add(q.control.waitLimit(ctx, q.arrived)))
	now := time.Now()
	waiting.Add(now, -1)
	q.waited = now.Sub(q.arrived)
	q.setOutcome(now, outcome)
}

// wait waits for the outcome, and adjusts borrowed seats periodically.
func (q *Request) wait(ctx context.Context, deadline time.Time) fairqueue.Outcome {
	c, set := q.control, q.flow.level.set
	for {
		until := c.nextAdjustment()
		if until.After(deadline) {
			until = deadline
		}
		if outcome := set.Wait(ctx, &q.request, until); outcome != fairqueue.Waiting {
			return outcome
		}
		if !time.Now().Before(deadline) {
			return set.Cancel(&q.request, fairqueue.TimeOut)
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
func (q *Request) Admitted() bool { return q.outcome == fairqueue.Executing }

// Waited returns the queuing time of the request. It is 0 before Wait returns.
func (q *Request) Waited() time.Duration { return q.waited }

// End releases the seats of an admitted request. Call it when the request is complete or, for a
// watch, when its initial events have been sent. Only the first call has an effect.
func (q *Request) End() {
	if !q.Admitted() || q.ended.Swap(true) {
		return
	}
	now := time.Now()
	took := q.flow.level.set.Finish(now, &q.request)
	q.flow.metrics.ended(q.info, took)
	q.control.kinds.of(q.info).executing.Add(now, -1)
	q.control.adjustIfDue(now)
	if q.flow.level.quiescing.Load() && q.flow.level.set.Idle() {
		q.control.removeIdleLevels()
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
func (q *Request) SetHeaders(header http.Header) {
	header[schemaHeader], header[levelHeader] = q.flow.schemaUID, q.flow.levelUID
}

// RetryAfter counts a rejection of the request, and returns the Retry-After for the client, in
// seconds. Call it once per rejected request.
func (q *Request) RetryAfter() int64 { return q.flow.level.retry.reject(time.Now().Unix()) }
