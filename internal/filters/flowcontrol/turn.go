package flowcontrol

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// Turn is the turn of one request.
type Turn struct {
	queued  fairqueue.Request
	control *Control
	flow    *flow
	// distinguisher, user and info are for dumps.
	distinguisher string
	user          *request.User
	info          *request.Info
	outcome       fairqueue.Outcome
	taken         time.Time
	waited        time.Duration
	ended         atomic.Bool
}

// maxWait is the longest that a request waits for its turn.
const maxWait = time.Minute

// Take classifies a request. If the Turn Waits, the caller must call Wait. If it is Admitted
// afterwards, the caller must call End; otherwise it must reject the request.
func (c *Control) Take(r *http.Request) *Turn {
	ctx := r.Context()
	user, info := request.UserFrom(ctx), request.InfoFrom(ctx)
	f := c.configured().find(user, info)
	t := &Turn{control: c, flow: f, user: user, info: info, taken: time.Now()}
	t.distinguisher = f.distinguish(user, info)
	t.queued.Flow, t.queued.About = f.counted, t
	if f.queues {
		t.queued.Hash = f.hash(c.seed, t.distinguisher)
	}
	var watches int
	t.queued.Work, watches = c.estimate(f, r, info)
	f.metrics.estimated(t.queued.Work.Seats(), watches)
	c.tick(t.taken)
	t.decided(t.taken, f.level.set.Start(t.taken, &t.queued))
	return t
}

// decided records the outcome of queuing.
func (t *Turn) decided(now time.Time, outcome fairqueue.Outcome) {
	t.outcome = outcome
	if t.Admitted() {
		t.control.kinds.of(t.info).executing.Add(now, 1)
	}
	if outcome != fairqueue.Waiting && !t.flow.exempt {
		t.flow.metrics.waited(t.Admitted(), t.waited)
	}
}

// Waits reports whether others are before the request.
func (t *Turn) Waits() bool { return t.outcome == fairqueue.Waiting }

// Wait waits for the turn: for a quarter of the time that the request has, at most.
func (t *Turn) Wait(ctx context.Context) {
	t.flow.metrics.queued(t.flow.level.set.QueueLength(&t.queued))
	waiting := t.control.kinds.of(t.info).waiting
	waiting.Add(t.taken, 1)
	outcome := t.wait(ctx, t.taken.Add(t.control.patience(ctx, t.taken)))
	now := time.Now()
	waiting.Add(now, -1)
	t.waited = now.Sub(t.taken)
	t.decided(now, outcome)
}

// wait waits for the turn, and adjusts borrowed seats periodically.
func (t *Turn) wait(ctx context.Context, deadline time.Time) fairqueue.Outcome {
	c, set := t.control, t.flow.level.set
	for {
		until := c.nextAdjustment()
		if until.After(deadline) {
			until = deadline
		}
		if outcome := set.Wait(ctx, &t.queued, until); outcome != fairqueue.Waiting {
			return outcome
		}
		if !time.Now().Before(deadline) {
			return set.Leave(&t.queued, fairqueue.TimeOut)
		}
		c.tick(time.Now())
	}
}

// patience is how long a request waits.
func (c *Control) patience(ctx context.Context, now time.Time) time.Duration {
	patience := c.config.Wait
	if deadline, has := ctx.Deadline(); has {
		received := request.Received(ctx)
		if received.IsZero() {
			received = now
		}
		patience = received.Add(deadline.Sub(received) / 4).Sub(now)
	}
	return min(patience, maxWait)
}

// Admitted reports whether the request may be executed.
func (t *Turn) Admitted() bool { return t.outcome == fairqueue.Executing }

// Waited returns for how long the request has waited.
func (t *Turn) Waited() time.Duration { return t.waited }

// End ends the turn: of a watch when it has sent its first events, of another request
// when it is done. It may be called again.
func (t *Turn) End() {
	if !t.Admitted() || t.ended.Swap(true) {
		return
	}
	now := time.Now()
	took := t.flow.level.set.Finish(now, &t.queued)
	t.flow.metrics.ended(t.info, took)
	t.control.kinds.of(t.info).executing.Add(now, -1)
	t.control.tick(now)
	if t.flow.level.quiescing.Load() && t.flow.level.set.Idle() {
		t.control.forget()
	}
}

// Watch counts an admitted watch until Forget is called. Writes are estimated by the number of
// watches that they notify.
func (c *Control) Watch(info *request.Info) { c.watches.add(info, 1) }

// Forget removes a watch that was counted by Watch.
func (c *Control) Forget(info *request.Info) { c.watches.add(info, -1) }

// Names of the headers that tell how a request was classified, as keys of a Header.
const (
	schemaHeader = "X-Kubernetes-Pf-Flowschema-Uid"
	levelHeader  = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// SetHeaders sets the response headers with the UIDs of the schema and level of the request. The
// names are not sent, because only administrators may read them.
func (t *Turn) SetHeaders(header http.Header) {
	header[schemaHeader], header[levelHeader] = t.flow.schemaUID, t.flow.levelUID
}

// Refuse returns how long the client should wait before it tries again, in seconds.
func (t *Turn) Refuse() int64 { return t.flow.level.retry.refuse(time.Now().Unix()) }
