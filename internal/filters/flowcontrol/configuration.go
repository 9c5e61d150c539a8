package flowcontrol

import (
	"cmp"
	"maps"
	"math"
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/request"
)

// configuration contains the flow schemas in matching order. It is immutable.
type configuration struct {
	flows    []*flow
	catchAll *flow
}

// find returns the flow of the first schema that matches a request.
func (c *configuration) find(user *request.User, info *request.Info) *flow {
	for _, f := range c.flows {
		if f.matches(user, info) {
			return f
		}
	}
	return c.catchAll // the user has neither system:authenticated nor system:unauthenticated
}

// configure builds the configuration from the stored objects. The caller must hold c.mu.
func (c *Control) configure() {
	c.configureLevels()
	next := &configuration{}
	for _, schema := range c.orderedSchemas() {
		if l := c.activeLevels[schema.Spec.PriorityLevelConfiguration.Name]; l != nil && !l.quiescing.Load() {
			f := l.flowOf(schema, c.config.Metrics)
			next.flows = append(next.flows, f)
			if schema.Name == flowcontrolv1.FlowSchemaNameCatchAll {
				next.catchAll = f
			}
		}
	}
	for _, l := range c.activeLevels {
		l.removeUnusedFlows(next.flows, c.config.Metrics)
	}
	c.current.Store(next)
}

// orderedSchemas returns the schemas in matching order. The mandatory schemas are first and last.
func (c *Control) orderedSchemas() []*flowcontrolv1.FlowSchema {
	all := withMandatory(c.schemas, c.config.Schemas)
	slices.SortFunc(all, func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// withMandatory returns the stored objects, and those mandatory objects for which no object with
// the same name is stored.
func withMandatory[K comparable, T interface{ GetName() string }](stored map[K]T, mandatory []T) []T {
	all := slices.Collect(maps.Values(stored))
	for _, m := range mandatory {
		if !slices.ContainsFunc(all, func(o T) bool { return o.GetName() == m.GetName() }) {
			all = append(all, m)
		}
	}
	return all
}

// configureLevels creates, updates and removes levels according to the stored and the mandatory
// objects, and distributes the seats.
func (c *Control) configureLevels() {
	desired := map[string]bool{}
	for _, object := range withMandatory(c.levels, c.config.Levels) {
		if !isValid(object) {
			continue // schemas of the level are ignored
		}
		l := c.activeLevels[object.Name]
		if l == nil {
			l = newLevel(object.Name, &c.config.Metrics.bounds)
			c.activeLevels[object.Name] = l
		}
		l.configure(object)
		desired[object.Name] = true
	}
	for name, l := range c.activeLevels {
		if !desired[name] {
			l.quiescing.Store(true)
			if l.set.Idle() {
				delete(c.activeLevels, name)
				c.config.Metrics.forgetLevel(name)
			}
		}
	}
	c.shareSeats()
	c.adjust()
}

// isValid reports whether a level passes validation. Like kube-apiserver, a Control ignores invalid levels.
func isValid(level *flowcontrolv1.PriorityLevelConfiguration) bool {
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
// requests, and the limits for lending and borrowing. Nominal seats are rounded up, so their sum
// may exceed the total.
func (c *Control) shareSeats() {
	var sum float64
	for _, l := range c.activeLevels {
		sum += float64(l.shares)
	}
	executing, waiting := 0, 0
	for _, l := range c.activeLevels {
		nominal := 0
		if sum > 0 {
			nominal = int(math.Ceil(float64(c.config.Seats) * float64(l.shares) / sum))
		}
		l.setNominal(nominal, c.config.Seats)
		executing, waiting = executing+nominal, waiting+l.queues*l.queueLength
	}
	c.kinds.setCapacity(executing, waiting)
}
