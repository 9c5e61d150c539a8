package controlplane

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/flags"
)

// Defaults of StorageOptions, as in kube-apiserver.
const (
	DefaultEventTTL            = time.Hour
	DefaultStorageCheckTimeout = 2 * time.Second
	DefaultObjectCountInterval = time.Minute
)

// StorageOptions configure stored objects and the checks of the store, for all backends.
type StorageOptions struct {
	// EventTTL is the lifetime of events; 0 selects 1h.
	EventTTL time.Duration
	// HealthTimeout and ReadyTimeout are the timeouts of the checks "etcd" and "etcd-readiness"; 0
	// selects 2s.
	HealthTimeout, ReadyTimeout time.Duration
	// ObjectCountInterval is the refresh interval of the metrics with object counts; 0 selects 1m,
	// and a negative value disables them.
	ObjectCountInterval time.Duration
}

// AddFlags defines the flags of the options.
func (o *StorageOptions) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.EventTTL, "event-ttl", DefaultEventTTL, "lifetime of events")
	fs.DurationVar(&o.HealthTimeout, "etcd-healthcheck-timeout", DefaultStorageCheckTimeout, "timeout of the health check \"etcd\"")
	fs.DurationVar(&o.ReadyTimeout, "etcd-readycheck-timeout", DefaultStorageCheckTimeout, "timeout of the readiness check \"etcd-readiness\"")
	flags.PeriodVar(fs, &o.ObjectCountInterval, "etcd-count-metric-poll-period", DefaultObjectCountInterval, "refresh interval of the metrics with object counts, for the embedded store and etcd; 0 disables them")
}

func (o *StorageOptions) setDefaults() {
	setDefault(&o.EventTTL, DefaultEventTTL)
	setDefault(&o.HealthTimeout, DefaultStorageCheckTimeout)
	setDefault(&o.ReadyTimeout, DefaultStorageCheckTimeout)
	setDefault(&o.ObjectCountInterval, DefaultObjectCountInterval)
}

func (o *StorageOptions) check() error {
	return errors.Join(
		checkNotNegative("event-ttl", o.EventTTL),
		checkNotNegative("etcd-healthcheck-timeout", o.HealthTimeout),
		checkNotNegative("etcd-readycheck-timeout", o.ReadyTimeout),
	)
}
