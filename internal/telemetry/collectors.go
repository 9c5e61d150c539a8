package telemetry

import "github.com/prometheus/client_golang/prometheus"

// RegisterCollectors registers the metrics of a component that can be closed. The caller calls unregister to
// remove the metrics. If a registration fails, RegisterCollectors returns the error and registers none of the
// metrics. If r is nil, RegisterCollectors and unregister have no effect.
func RegisterCollectors(r prometheus.Registerer, collectors ...prometheus.Collector) (unregister func(), err error) {
	if r == nil {
		return func() {}, nil
	}
	for i, c := range collectors {
		if err := r.Register(c); err != nil {
			unregisterAll(r, collectors[:i])
			return nil, err
		}
	}
	return func() { unregisterAll(r, collectors) }, nil
}

func unregisterAll(r prometheus.Registerer, collectors []prometheus.Collector) {
	for _, c := range collectors {
		r.Unregister(c)
	}
}
