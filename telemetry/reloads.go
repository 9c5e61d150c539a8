package telemetry

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads counts how often a configuration file was read again, by kube-apiserver's names.
type Reloads struct {
	total *prometheus.CounterVec
	last  *prometheus.GaugeVec
}

// NewReloads registers the metrics of the configuration of something: "authentication".
func NewReloads(registerer prometheus.Registerer, of string) (*Reloads, error) {
	prefix := "apiserver_" + of + "_config_controller_automatic_reload"
	r := &Reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "s_total", Help: "Total number of automatic reloads of " + of + " configuration split by status.",
		}, []string{"status"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "_last_timestamp_seconds", Help: "Timestamp of the last automatic reload of " + of + " configuration split by status.",
		}, []string{"status"}),
	}
	if err := errors.Join(registerer.Register(r.total), registerer.Register(r.last)); err != nil {
		return nil, fmt.Errorf("register metrics of the configuration of %s: %w", of, err)
	}
	return r, nil
}

// Reloaded counts a change of the configuration, which may have been refused.
func (r *Reloads) Reloaded(err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	r.total.WithLabelValues(status).Inc()
	r.last.WithLabelValues(status).SetToCurrentTime()
}
