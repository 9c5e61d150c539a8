package flowcontrol

import (
	"cmp"
	"maps"
	"math"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/request"
)

// configuration is the schemas that requests are matched with, in order. It does not
// change.
type configuration struct {
	flows    []*flow
	catchAll *flow
}

// find returns the flow of a request.
func (c *configuration) find(user *request.User, info *request.Info) *flow {
	for _, f := range c.flows {
		if f.matches(user, info) {
			return f
		}
	}
	return c.catchAll // a user without system:authenticated and system:unauthenticated
}

// configure builds the configuration from the stored objects. The caller must hold c.mu.
func (c *Control) configure() {
	c.configureLevels()
	next := &configuration{}
	for _, schema := range c.inOrder() {
		if l := c.made[schema.Spec.PriorityLevelConfiguration.Name]; l != nil && !l.quiescing.Load() {
			f := l.flowOf(schema, c.config.Metrics)
			next.flows = append(next.flows, f)
			if schema.Name == flowcontrolv1.FlowSchemaNameCatchAll {
				next.catchAll = f
			}
		}
	}
	for _, l := range c.made {
		l.keepFlows(next.flows, c.config.Metrics)
	}
	c.current.Store(next)
}

// inOrder returns the schemas in the order in which they are tried. The mandatory ones are
// first and last.
func (c *Control) inOrder() []*flowcontrolv1.FlowSchema {
	all := withMandatory(c.schemas, c.config.Schemas)
	slices.SortFunc(all, func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// withMandatory returns the stored objects and the mandatory ones that are not stored.
func withMandatory[K comparable, T interface{ GetName() string }](stored map[K]T, mandatory []T) []T {
	all := slices.Collect(maps.Values(stored))
	for _, m := range mandatory {
		if !slices.ContainsFunc(all, func(o T) bool { return o.GetName() == m.GetName() }) {
			all = append(all, m)
		}
	}
	return all
}

// configureLevels creates the levels of the stored objects and distributes the seats.
func (c *Control) configureLevels() {
	wanted := map[string]bool{}
	for _, object := range withMandatory(c.levels, c.config.Levels) {
		if !sound(object) {
			continue // its schemas count as dangling
		}
		l := c.made[object.Name]
		if l == nil {
			l = newLevel(object.Name, &c.config.Metrics.bounds)
			c.made[object.Name] = l
		}
		l.configure(object)
		wanted[object.Name] = true
	}
	for name, l := range c.made {
		if !wanted[name] {
			l.quiescing.Store(true)
			if l.set.Idle() {
				delete(c.made, name)
				c.config.Metrics.forgetLevel(name)
			}
		}
	}
	c.shareSeats()
	c.adjust()
}

// sound reports whether a level passes validation. Like kube-apiserver, other levels are ignored.
func sound(level *flowcontrolv1.PriorityLevelConfiguration) bool {
	spec := &level.Spec
	exempt := spec.Type == flowcontrolv1.PriorityLevelEnablementExempt
	if exempt != (level.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) || exempt != (spec.Exempt != nil) || exempt == (spec.Limited != nil) {
		return false
	}
	if exempt {
		return true
	}
	response := spec.Limited.LimitResponse
	return (response.Type == flowcontrolv1.LimitResponseTypeQueue) == (response.Queuing != nil)
}

// shareSeats sets the nominal seats of each level, including deleted levels with remaining
// requests, and the limits for lending and borrowing. Shares are rounded up, so the sum may exceed
// the total.
func (c *Control) shareSeats() {
	var sum float64
	for _, l := range c.made {
		sum += float64(l.shares)
	}
	executing, waiting := 0, 0
	for _, l := range c.made {
		nominal := 0
		if sum > 0 {
			nominal = int(math.Ceil(float64(c.config.Seats) * float64(l.shares) / sum))
		}
		l.setNominal(nominal, c.config.Seats)
		executing, waiting = executing+nominal, waiting+l.queues*l.queueLength
	}
	c.kinds.setRoom(executing, waiting)
}
