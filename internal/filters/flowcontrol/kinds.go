package flowcontrol

import (
	"mainstay.dev/mainstay/internal/filters/flowcontrol/fairqueue"
	"mainstay.dev/mainstay/internal/request"
)

// kind measures the read-only or the mutating requests of all levels, relative to the capacity of
// all levels.
type kind struct{ executing, waiting *fairqueue.Gauge }

// kinds are both.
type kinds struct{ readOnly, mutating kind }

func newKinds() kinds {
	bounds := []float64{0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1}
	one := func() kind { return kind{fairqueue.NewGauge(bounds), fairqueue.NewGauge(bounds)} }
	return kinds{one(), one()}
}

// of returns the kind of a request.
func (k *kinds) of(info *request.Info) *kind {
	switch info.Verb {
	case "get", "list", "watch":
		return &k.readOnly
	}
	return &k.mutating
}

// setRoom sets the maximum numbers of executing and waiting requests.
func (k *kinds) setRoom(executing, waiting int) {
	for _, of := range []*kind{&k.readOnly, &k.mutating} {
		of.executing.SetDenominator(executing)
		of.waiting.SetDenominator(waiting)
	}
}

func (k *kinds) sample(s *samples) {
	for name, of := range map[string]*kind{"readOnly": &k.readOnly, "mutating": &k.mutating} {
		s.addMeasured("read_vs_write_current_requests", of.executing.Measured(), "executing", name)
		s.addMeasured("read_vs_write_current_requests", of.waiting.Measured(), "waiting", name)
	}
}
