package flowcontrol

import (
	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// requestKind measures the read-only or the mutating requests of all levels, relative to the
// capacity of all levels.
type requestKind struct{ executing, waiting *fairqueue.Gauge }

type requestKinds struct{ readOnly, mutating requestKind }

func newKinds() requestKinds {
	bounds := []float64{0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
	one := func() requestKind { return requestKind{fairqueue.NewGauge(bounds), fairqueue.NewGauge(bounds)} }
	return requestKinds{one(), one()}
}

func (k *requestKinds) of(info *request.Info) *requestKind {
	switch info.Verb {
	case "get", "list", "watch":
		return &k.readOnly
	}
	return &k.mutating
}

// setCapacity sets the maximum numbers of executing and waiting requests.
func (k *requestKinds) setCapacity(executing, waiting int) {
	for _, of := range []*requestKind{&k.readOnly, &k.mutating} {
		of.executing.SetDenominator(executing)
		of.waiting.SetDenominator(waiting)
	}
}

func (k *requestKinds) sample(s *samples) {
	for name, of := range map[string]*requestKind{"readOnly": &k.readOnly, "mutating": &k.mutating} {
		s.addMeasured("read_vs_write_current_requests", of.executing.Measured(), "executing", name)
		s.addMeasured("read_vs_write_current_requests", of.waiting.Measured(), "waiting", name)
	}
}
