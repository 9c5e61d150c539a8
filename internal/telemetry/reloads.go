package telemetry

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads counts how often a configuration file was read again, by kube-apiserver's names.
type Reloads struct {
	total      *prometheus.CounterVec
	last, info *prometheus.GaugeVec
}

// NewReloads registers the metrics of the configuration of something, "authentication", as
// Identified.
func NewReloads(registerer prometheus.Registerer, of string) (*Reloads, error) {
	prefix := "apiserver_" + of + "_config_controller_"
	r := &Reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "automatic_reloads_total", Help: "[BETA] Total number of automatic reloads of " + of + " configuration split by status and apiserver identity.",
		}, []string{"status"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "[BETA] Timestamp of the last automatic reload of " + of + " configuration split by status and apiserver identity.",
		}, []string{"status"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "last_config_info", Help: "[ALPHA] Information about the last applied " + of + " configuration with hash as label, split by apiserver identity.",
		}, []string{"hash"}),
	}
	if err := errors.Join(registerer.Register(r.total), registerer.Register(r.last), registerer.Register(r.info)); err != nil {
		return nil, fmt.Errorf("register metrics of the configuration of %s: %w", of, err)
	}
	return r, nil
}

// Reloaded counts a change of the configuration, which may have been rejected.
func (r *Reloads) Reloaded(err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	r.total.WithLabelValues(status).Inc()
	r.last.WithLabelValues(status).SetToCurrentTime()
}

// Applied notes which configuration is in force. It must not be called concurrently.
func (r *Reloads) Applied(content []byte) {
	r.info.Reset()
	r.info.WithLabelValues(Hash(content)).Set(1)
}
