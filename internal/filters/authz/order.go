package authz

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/authorizer"
)

// Listed is an authorizer in a list.
type Listed struct {
	Type, Name string
	// Authorizer is the implementation; nil selects the control plane's authorizer of the type.
	Authorizer authorizer.Authorizer
}

// Metrics counts decisions, with the metric names of kube-apiserver. The methods of a nil *Metrics
// do nothing.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total", Help: "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
	}, []string{"type", "name", "decision"})}
	if err := registerer.Register(m.decisions); err != nil {
		return nil, fmt.Errorf("register metrics of authorization: %w", err)
	}
	return m, nil
}

// InOrder evaluates Masters, and then the authorizers of a replaceable list.
type InOrder struct {
	list    func() *[]Listed
	own     map[string]authorizer.Authorizer
	metrics *Metrics
	current atomic.Pointer[made]
}

// made is the union for a list.
type made struct {
	of    *[]Listed
	union Union
}

// NewInOrder returns an authorizer with the current list of the function list, which must be
// replaced, not modified. own are the authorizers of the control plane by type; the creator of a
// list must reject other types without an Authorizer.
func NewInOrder(list func() *[]Listed, own map[string]authorizer.Authorizer, metrics *Metrics) *InOrder {
	return &InOrder{list: list, own: own, metrics: metrics}
}

// Authorize implements authorizer.Authorizer.
func (o *InOrder) Authorize(ctx context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	list := o.list()
	now := o.current.Load()
	if now == nil || now.of != list {
		now = &made{of: list, union: o.union(*list)}
		o.current.Store(now)
	}
	return now.union.Authorize(ctx, attributes)
}

func (o *InOrder) union(list []Listed) Union {
	union := Union{Masters{}}
	for _, l := range list {
		next := l.Authorizer
		if next == nil {
			next = o.own[l.Type]
		}
		if next == nil {
			next = missing(l.Type)
		}
		if m := o.metrics; m != nil {
			next = &counted{next, m.decisions.WithLabelValues(l.Type, l.Name, "allowed"), m.decisions.WithLabelValues(l.Type, l.Name, "denied")}
		}
		union = append(union, next)
	}
	return union
}

// missing denies: an authorizer that is not there must not be passed over.
type missing string

func (m missing) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", errors.New("there is no authorizer of the type " + string(m))
}

// counted counts the final decisions of an authorizer.
type counted struct {
	authorizer.Authorizer
	allowed, denied prometheus.Counter
}

func (c *counted) Authorize(ctx context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := c.Authorizer.Authorize(ctx, a)
	switch decision {
	case authorizer.DecisionAllow:
		c.allowed.Inc()
	case authorizer.DecisionDeny:
		c.denied.Inc()
	}
	return decision, reason, err
}
