package controlplane

import (
	"errors"
	"fmt"
	"time"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/telemetry"
)

// NoLimit is the value that disables a maximum. The value 0 selects the default maximum.
const NoLimit = -1

// Options configure a control plane. The zero value selects the defaults. Each group of options is in its own
// file, together with its flags.
type Options struct {
	Authentication  AuthenticationOptions
	ServiceAccounts ServiceAccountOptions
	Authorization   AuthorizationOptions
	Admission       AdmissionOptions
	Controllers     ControllerOptions
	Services        ServiceOptions
	Aggregation     AggregationOptions
	Peers           PeerOptions
	Kubelet         KubeletOptions
	Requests        RequestOptions
	Storage         StorageOptions
	Health          HealthOptions
	Features        FeatureOptions
	// Audit selects the recorded requests and the backends. To enable audit, start from audit.NewOptions, or
	// call Audit.AddFlags. The zero value disables audit.
	Audit audit.Options

	// Definitions contains the custom resources of the control plane that need no CustomResourceDefinition in
	// the store. Clients can neither read nor change the definitions.
	Definitions []*Definition

	// Limits limits the objects that clients store; nil means no limit.
	Limits ObjectLimits
	// Changes receives the stored objects and their changes while the controllers run in this process; it may
	// be nil.
	Changes ChangeSubscriber

	// Filter is applied to authorized requests, as the last filter; nil disables it.
	Filter filters.Filter
	// Checks contains additional health checks.
	Checks []telemetry.Check
}

// ChangeSubscriber is the type of Options.Changes.
type ChangeSubscriber interface {
	changes.Subscriber
	// Stopped is called when the controllers no longer run in this process. If another process runs them then, the
	// subscriber does not receive the following changes. Reset is called before the next ones.
	Stopped()
}

// WithDefaults returns a copy of the options in which zero fields have their default values. The copy
// shares slices and maps with the options.
func (o Options) WithDefaults() Options {
	o.ServiceAccounts.setDefaults()
	o.Authentication.setDefaults(&o.ServiceAccounts)
	o.Authorization.setDefaults()
	o.Admission.setDefaults()
	o.Controllers.setDefaults()
	o.Services.setDefaults()
	o.Requests.setDefaults()
	o.Storage.setDefaults()
	o.Controllers.disableGarbageCollector = o.Storage.DisableGarbageCollector
	return o
}

// Check returns all errors in the options. The errors contain the names of the flags. WithDefaults must have
// set the default values before.
func (o Options) Check() error {
	return errors.Join(
		o.Requests.check(), o.Services.check(), o.Controllers.check(), o.Storage.check(), o.Health.check(),
		o.Features.check(), o.checkManifests(), o.Audit.Check(), o.Authorization.check(), o.ServiceAccounts.check(),
		o.Admission.check(), o.Peers.check(o.Gates()),
	)
}

// Gates returns the enabled feature gates. The options must have been checked.
func (o Options) Gates() feature.Gates { return o.Features.enabled() }

// checkManifests returns an error if admission manifests are configured but their feature gate is disabled.
func (o Options) checkManifests() error {
	if c := o.Admission.Config; c != nil && c.HasManifests() && !o.Gates().Enabled(feature.ManifestBasedAdmissionControlConfig) {
		return errors.New("staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// checkNotNegative returns an error if the value of a flag is negative.
func checkNotNegative(flag string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("--%s is %s; it cannot be negative", flag, value)
	}
	return nil
}

// checkAtLeastOne returns an error if the value of a flag is less than 1.
func checkAtLeastOne(flag string, value int) error {
	if value < 1 {
		return fmt.Errorf("--%s is %d; it must be at least 1", flag, value)
	}
	return nil
}
