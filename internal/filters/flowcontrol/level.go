package flowcontrol

import (
	"math"
	"slices"
	"sync/atomic"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
)

// level is a priority level. Requests use set, retry and quiescing; all else is guarded by
// Control.mu, but for the name, which does not change.
type level struct {
	name  string
	set   *fairqueue.Set
	retry retryAfter
	// quiescing: the object of the level is deleted.
	quiescing atomic.Bool
	flows     map[string]*flow // by the names of their schemas

	// uid is that of the object, as the value of a header.
	uid                           []string
	exempt                        bool
	queues, handSize, queueLength int
	// shares, lendable and borrowing are of the object: the last two in percent, borrowing below 0:
	// any.
	shares, lendable, borrowing int32

	// nominal is the level's own number of seats. current is between min, the seats that it does
	// not lend, and max, the seats including the maximum that it may borrow.
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
		l.shares, l.lendable = valueOf(exempt.NominalConcurrencyShares, 0), valueOf(exempt.LendablePercent, 0)
		config.Exempt = true
	} else {
		limited := object.Spec.Limited
		l.exempt, l.queues, l.handSize, l.queueLength = false, 0, 0, 0
		l.shares, l.lendable, l.borrowing = valueOf(limited.NominalConcurrencyShares, 0), valueOf(limited.LendablePercent, 0), valueOf(limited.BorrowingLimitPercent, -1)
		if queuing := limited.LimitResponse.Queuing; queuing != nil {
			l.queues, l.handSize, l.queueLength = int(queuing.Queues), int(queuing.HandSize), int(queuing.QueueLengthLimit)
			config = fairqueue.Config{Queues: l.queues, HandSize: l.handSize, QueueLengthLimit: l.queueLength}
		}
	}
	l.set.Configure(config)
}

func valueOf(field *int32, otherwise int32) int32 {
	if field == nil {
		return otherwise
	}
	return *field
}

// setNominal sets the level's own number of seats and the values derived from it.
func (l *level) setNominal(nominal, all int) {
	percent := func(p int32) int { return int(math.Round(float64(nominal) * float64(p) / 100)) }
	lendable := percent(l.lendable)
	l.nominal, l.min, l.max = nominal, nominal-lendable, nominal+all
	if l.borrowing >= 0 {
		l.max = nominal + percent(l.borrowing)
	}
}

// seatsPart is the part of a level's nominal seats that one request may take.
const seatsPart = 0.15

// maxSeats returns the most seats that one request may take; 0: the estimate's
// bound applies.
func (l *level) maxSeats() int {
	if l.queues == 0 {
		return 0
	}
	return max(1, min(int(math.Ceil(float64(l.nominal)*seatsPart)), l.nominal/max(l.handSize, 1)))
}

// flowOf returns the flow of a schema of this level. Existing counters continue.
func (l *level) flowOf(schema *flowcontrolv1.FlowSchema, metrics *Metrics) *flow {
	f := newFlow(schema, l)
	if before := l.flows[schema.Name]; before != nil {
		f.counted, f.metrics = before.counted, before.metrics
	} else {
		f.counted, f.metrics = &fairqueue.Flow{}, metrics.flow(l.name, schema.Name)
	}
	l.flows[schema.Name] = f
	return f
}

// keepFlows forgets the flows that no schema is of any more, once they are empty.
func (l *level) keepFlows(flows []*flow, metrics *Metrics) {
	for name, f := range l.flows {
		if slices.Contains(flows, f) {
			continue
		}
		counted := l.set.FlowCounts(f.counted)
		if counted.ExecutingRequests+counted.ExecutingSeats+counted.WaitingRequests == 0 {
			delete(l.flows, name)
			metrics.forgetFlow(l.name, name)
		}
	}
}
