package authz

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/authorizer"
)

// NamedAuthorizer is an authorizer with its type and name in the configuration.
type NamedAuthorizer struct {
	Type, Name string
	// Authorizer is the implementation. A nil Authorizer selects the control plane's authorizer of
	// the type.
	Authorizer authorizer.Authorizer
}

// Metrics counts decisions, with the metric names of kube-apiserver. The methods of a nil *Metrics
// do nothing. It is safe for concurrent use.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics. It returns an error if they are already registered.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total", Help: "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
	}, []string{"type", "name", "decision"})}
	if err := registerer.Register(m.decisions); err != nil {
		return nil, fmt.Errorf("register metrics of authorization: %w", err)
	}
	return m, nil
}

// ReloadableUnion evaluates Masters, and then the authorizers of a list that can be replaced at any
// time. It is safe for concurrent use.
type ReloadableUnion struct {
	list    func() *[]NamedAuthorizer
	builtin map[string]authorizer.Authorizer
	metrics *Metrics
	current atomic.Pointer[builtUnion]
}

// builtUnion caches the Union for a list.
type builtUnion struct {
	list  *[]NamedAuthorizer
	union Union
}

// NewReloadableUnion returns an authorizer for the list that the function list returns. The
// function is called for each request. To change the list, the function must return another
// pointer; a list must not be modified. builtin contains the authorizers of the control plane by
// type. For other types, NamedAuthorizer.Authorizer must not be nil. metrics may be nil.
func NewReloadableUnion(list func() *[]NamedAuthorizer, builtin map[string]authorizer.Authorizer, metrics *Metrics) *ReloadableUnion {
	return &ReloadableUnion{list: list, builtin: builtin, metrics: metrics}
}

// Authorize implements authorizer.Authorizer.
func (o *ReloadableUnion) Authorize(ctx context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	list := o.list()
	now := o.current.Load()
	if now == nil || now.list != list {
		now = &builtUnion{list: list, union: o.union(*list)}
		o.current.Store(now)
	}
	return now.union.Authorize(ctx, attributes)
}

func (o *ReloadableUnion) union(list []NamedAuthorizer) Union {
	union := Union{Masters{}}
	for _, l := range list {
		next := l.Authorizer
		if next == nil {
			next = o.builtin[l.Type]
		}
		if next == nil {
			next = missingAuthorizer(l.Type)
		}
		if m := o.metrics; m != nil {
			next = &countedAuthorizer{next, m.decisions.WithLabelValues(l.Type, l.Name, "allowed"), m.decisions.WithLabelValues(l.Type, l.Name, "denied")}
		}
		union = append(union, next)
	}
	return union
}

// missingAuthorizer denies all requests. It replaces an authorizer without implementation, because
// skipping a configured authorizer would be unsafe.
type missingAuthorizer string

func (m missingAuthorizer) Authorize(context.Context, *authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", errors.New("no authorizer of type " + string(m))
}

// countedAuthorizer counts the final decisions of an authorizer.
type countedAuthorizer struct {
	authorizer.Authorizer
	allowed, denied prometheus.Counter
}

func (c *countedAuthorizer) Authorize(ctx context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := c.Authorizer.Authorize(ctx, a)
	switch decision {
	case authorizer.DecisionAllow:
		c.allowed.Inc()
	case authorizer.DecisionDeny:
		c.denied.Inc()
	}
	return decision, reason, err
}
