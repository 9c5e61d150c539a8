package controlplane

import (
	"github.com/prometheus/client_golang/prometheus"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/plugin"
	"mainstay.dev/mainstay/internal/admission/policies"
	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/apis/aggregated"
	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/apis/custom/rules"
	"mainstay.dev/mainstay/internal/apis/peers"
	"mainstay.dev/mainstay/internal/controllers/work"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Metrics are the metrics of control planes, grouped by component. All control planes of a host
// share them. They are safe for concurrent use, and must not be modified.
type Metrics struct {
	Storage    StorageMetrics
	Security   SecurityMetrics
	Admission  AdmissionMetrics
	Extensions ExtensionMetrics
	// Flow measures priority and fairness. Queues measures the work queues of controllers.
	Flow   *flowcontrol.Metrics
	Queues *work.Metrics
}

// StorageMetrics are the metrics of stored objects.
type StorageMetrics struct {
	Storage    *storage.Metrics
	Reflectors *reflector.Metrics
	objects    *objectMetrics
}

// SecurityMetrics are the metrics of authentication, authorization and audit.
type SecurityMetrics struct {
	Authentication *authn.RequestMetrics
	Tokens         *authn.ServiceAccountMetrics
	Authorizers    *authz.Metrics
	Authorization  *authz.RequestMetrics
	Audit          *audit.Metrics
}

// AdmissionMetrics are the metrics of admission.
type AdmissionMetrics struct {
	Plugins     *admission.Metrics
	Webhooks    *webhooks.Metrics
	Policies    *policies.Metrics
	PodSecurity *plugin.PodSecurityMetrics
	manifests   *manifestMetrics
}

// ExtensionMetrics are the metrics of custom resources and other servers.
type ExtensionMetrics struct {
	Conversions *conversion.Metrics
	Rules       *rules.Metrics
	Aggregation *aggregated.Metrics
	Peers       *peers.Metrics
}

// NewMetrics registers the metrics of the control planes of a host. It returns the first
// registration error. To add the metrics of a component, add one line.
func NewMetrics(registerer prometheus.Registerer, hostname string) (*Metrics, error) {
	r := metricRegistration{registerer: registerer}
	identified := metricRegistration{registerer: telemetry.WithServerID(registerer, hostname)}
	m := &Metrics{
		Storage: StorageMetrics{
			Storage:    register(&r, storage.NewMetrics),
			Reflectors: register(&r, reflector.NewMetrics),
			objects:    register(&r, newObjectMetrics),
		},
		Security: SecurityMetrics{
			Authentication: register(&r, authn.NewRequestMetrics),
			Tokens:         register(&r, authn.NewServiceAccountMetrics),
			Authorizers:    register(&r, authz.NewMetrics),
			Authorization:  register(&r, authz.NewRequestMetrics),
			Audit:          register(&r, audit.NewMetrics),
		},
		Admission: AdmissionMetrics{
			Plugins:     register(&r, admission.NewMetrics),
			Webhooks:    register(&r, webhooks.NewMetrics),
			Policies:    register(&r, policies.NewMetrics),
			PodSecurity: register(&r, plugin.NewPodSecurityMetrics),
			manifests:   register(&identified, newManifestMetrics),
		},
		Extensions: ExtensionMetrics{
			Conversions: register(&r, conversion.NewMetrics),
			Rules:       register(&r, rules.NewMetrics),
			Aggregation: register(&r, aggregated.NewMetrics),
			Peers:       register(&r, peers.NewMetrics),
		},
		Flow:   register(&r, flowcontrol.NewMetrics),
		Queues: register(&r, work.NewMetrics),
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, identified.err
}

// metricRegistration registers metrics and keeps the first error.
type metricRegistration struct {
	registerer prometheus.Registerer
	err        error
}

// register calls the NewMetrics function of a component. After an error it returns nil.
func register[M any](r *metricRegistration, newMetrics func(prometheus.Registerer) (*M, error)) *M {
	if r.err != nil {
		return nil
	}
	m, err := newMetrics(r.registerer)
	r.err = err
	return m
}
