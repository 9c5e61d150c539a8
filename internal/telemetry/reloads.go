package telemetry

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Reloads contains the metrics for reloads of a configuration file. The names are those of kube-apiserver.
type Reloads struct {
	total      *prometheus.CounterVec
	last, info *prometheus.GaugeVec
}

// NewReloads creates and registers the metrics for a kind of configuration, such as "authentication".
// registerer should be the result of WithServerID. NewReloads returns an error if the metrics are already
// registered.
func NewReloads(registerer prometheus.Registerer, config string) (*Reloads, error) {
	prefix := "apiserver_" + config + "_config_controller_"
	r := &Reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "automatic_reloads_total", Help: "[BETA] Total number of automatic reloads of " + config + " configuration split by status and apiserver identity.",
		}, []string{"status"}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "automatic_reload_last_timestamp_seconds", Help: "[BETA] Timestamp of the last automatic reload of " + config + " configuration split by status and apiserver identity.",
		}, []string{"status"}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "last_config_info", Help: "[ALPHA] Information about the last applied " + config + " configuration with hash as label, split by apiserver identity.",
		}, []string{"hash"}),
	}
	if err := errors.Join(registerer.Register(r.total), registerer.Register(r.last), registerer.Register(r.info)); err != nil {
		return nil, fmt.Errorf("register metrics of the %s configuration: %w", config, err)
	}
	return r, nil
}

// Reloaded counts a reload; err is the reason why the new configuration was rejected, or nil.
func (r *Reloads) Reloaded(err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	r.total.WithLabelValues(status).Inc()
	r.last.WithLabelValues(status).SetToCurrentTime()
}

// Applied records the hash of the configuration in use. It must not be called concurrently.
func (r *Reloads) Applied(content []byte) {
	r.info.Reset()
	r.info.WithLabelValues(Hash(content)).Set(1)
}
