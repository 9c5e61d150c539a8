package flowcontrol

import (
	"math"
	"slices"
	"sync/atomic"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

// level is a priority level. name, set, retry and quiescing may be used without a lock; the other
// fields are guarded by Control.mu.
type level struct {
	name  string
	set   *fairqueue.Set
	retry retryAfter
	// quiescing is true after the object of the level was deleted.
	quiescing atomic.Bool
	flows     map[string]*flow // by name of the schema

	// uid contains the UID of the object as a header value.
	uid                           []string
	exempt                        bool
	queues, handSize, queueLength int
	// shares, lendable and borrowing are fields of the object. lendable and borrowing are in
	// percent; a negative borrowing means no limit.
	shares, lendable, borrowing int32

	// nominal is the number of seats without lending and borrowing. min is the number of seats that
	// the level never lends. max is the number of seats if the level borrows as many seats as it
	// may. current is the number of seats since the last adjustment.
	nominal, min, max, current int
	demand                     demandStats
}

func newLevel(name string, bounds *fairqueue.Bounds) *level {
	return &level{name: name, set: fairqueue.New(bounds), flows: map[string]*flow{}}
}

// configure applies the object of the level.
func (l *level) configure(object *flowcontrolv1.PriorityLevelConfiguration) {
	l.uid = []string{string(object.UID)}
	l.quiescing.Store(false)
	config := fairqueue.Config{}
	if exempt := object.Spec.Exempt; exempt != nil {
		l.exempt, l.queues, l.borrowing = true, 0, -1
		l.shares, l.lendable = valueOr(exempt.NominalConcurrencyShares, 0), valueOr(exempt.LendablePercent, 0)
		config.Exempt = true
	} else {
		limited := object.Spec.Limited
		l.exempt, l.queues, l.handSize, l.queueLength = false, 0, 0, 0
		l.shares, l.lendable, l.borrowing = valueOr(limited.NominalConcurrencyShares, 0), valueOr(limited.LendablePercent, 0), valueOr(limited.BorrowingLimitPercent, -1)
		if queuing := limited.LimitResponse.Queuing; queuing != nil {
			l.queues, l.handSize, l.queueLength = int(queuing.Queues), int(queuing.HandSize), int(queuing.QueueLengthLimit)
			config = fairqueue.Config{Queues: l.queues, HandSize: l.handSize, QueueLengthLimit: l.queueLength}
		}
	}
	l.set.Configure(config)
}

func valueOr(field *int32, otherwise int32) int32 {
	if field == nil {
		return otherwise
	}
	return *field
}

// setNominal sets the nominal number of seats and the values derived from it. all is the number of
// seats of all levels.
func (l *level) setNominal(nominal, all int) {
	percent := func(p int32) int { return int(math.Round(float64(nominal) * float64(p) / 100)) }
	lendable := percent(l.lendable)
	l.nominal, l.min, l.max = nominal, nominal-lendable, nominal+all
	if l.borrowing >= 0 {
		l.max = nominal + percent(l.borrowing)
	}
}

// maxSeatsFraction is the maximum fraction of a level's nominal seats for one request.
const maxSeatsFraction = 0.15

// maxSeats returns the maximum number of seats for one request, or 0 if only the limits of the
// estimate apply.
func (l *level) maxSeats() int {
	if l.queues == 0 {
		return 0
	}
	return max(1, min(int(math.Ceil(float64(l.nominal)*maxSeatsFraction)), l.nominal/max(l.handSize, 1)))
}

// flowOf returns a new flow for a schema of this level. It keeps the counters of the schema's
// previous flow.
func (l *level) flowOf(schema *flowcontrolv1.FlowSchema, metrics *Metrics) *flow {
	f := newFlow(schema, l)
	if before := l.flows[schema.Name]; before != nil {
		f.counters, f.metrics = before.counters, before.metrics
	} else {
		f.counters, f.metrics = &fairqueue.Flow{}, metrics.flow(l.name, schema.Name)
	}
	l.flows[schema.Name] = f
	return f
}

// removeUnusedFlows removes flows that are not in flows and have no requests.
func (l *level) removeUnusedFlows(flows []*flow, metrics *Metrics) {
	for name, f := range l.flows {
		if slices.Contains(flows, f) {
			continue
		}
		counted := l.set.FlowCounts(f.counters)
		if counted.ExecutingRequests+counted.ExecutingSeats+counted.WaitingRequests == 0 {
			delete(l.flows, name)
			metrics.forgetFlow(l.name, name)
		}
	}
}
