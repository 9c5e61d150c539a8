package controlplane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/registry"
)

// Defaults of StorageOptions, as in kube-apiserver.
const (
	DefaultEventTTL            = time.Hour
	DefaultStorageCheckTimeout = 2 * time.Second
	DefaultObjectCountInterval = time.Minute

	DefaultDeleteCollectionWorkers = 1
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
	// DisableGarbageCollector makes deletions ignore their propagation policy, and disables the
	// garbage collector of this server.
	DisableGarbageCollector bool
	// DeleteCollectionWorkers is the number of objects that are deleted concurrently when a collection is
	// deleted; 0 selects 1, and values larger than registry.MaxDeletionWorkers are reduced to that maximum.
	DeleteCollectionWorkers int
	// WatchCacheSizes contains entries RESOURCE[.GROUP]#SIZE. A size of 0 disables the watch cache of
	// a built-in resource. Other sizes have no effect, because watch caches grow as required.
	WatchCacheSizes []string
}

// AddFlags defines the flags of the options.
func (o *StorageOptions) AddFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.EventTTL, "event-ttl", DefaultEventTTL, "lifetime of events")
	fs.DurationVar(&o.HealthTimeout, "etcd-healthcheck-timeout", DefaultStorageCheckTimeout, "timeout of the health check \"etcd\"")
	fs.DurationVar(&o.ReadyTimeout, "etcd-readycheck-timeout", DefaultStorageCheckTimeout, "timeout of the readiness check \"etcd-readiness\"")
	flags.PeriodVar(fs, &o.ObjectCountInterval, "etcd-count-metric-poll-period", DefaultObjectCountInterval, "refresh interval of the metrics with object counts, for the embedded store and etcd; 0 disables them")
	flags.EnabledVar(fs, &o.DisableGarbageCollector, "enable-garbage-collector", "delete dependents according to the propagation policy of a deletion; if false, deletions ignore the policy, and the garbage collector of this server does not run")
	flags.PositiveVar(fs, &o.DeleteCollectionWorkers, "delete-collection-workers", DefaultDeleteCollectionWorkers, fmt.Sprintf("number of concurrent deletions in the deletion of a collection, at most %d", registry.MaxDeletionWorkers))
	fs.StringSliceVar(&o.WatchCacheSizes, "watch-cache-sizes", nil, "built-in resources without a watch cache, comma-separated, as RESOURCE[.GROUP]#0; sizes other than 0 have no effect, because watch caches grow as required")
}

func (o *StorageOptions) setDefaults() {
	setDefault(&o.EventTTL, DefaultEventTTL)
	setDefault(&o.HealthTimeout, DefaultStorageCheckTimeout)
	setDefault(&o.ReadyTimeout, DefaultStorageCheckTimeout)
	setDefault(&o.ObjectCountInterval, DefaultObjectCountInterval)
	setDefault(&o.DeleteCollectionWorkers, DefaultDeleteCollectionWorkers)
}

func (o *StorageOptions) check() error {
	_, err := o.uncached()
	return errors.Join(
		err, checkAtLeastOne("delete-collection-workers", o.DeleteCollectionWorkers),
		checkNotNegative("event-ttl", o.EventTTL),
		checkNotNegative("etcd-healthcheck-timeout", o.HealthTimeout),
		checkNotNegative("etcd-readycheck-timeout", o.ReadyTimeout),
	)
}

// uncached returns the resources whose watch cache is disabled. Its errors have the messages of
// kube-apiserver.
func (o *StorageOptions) uncached() (map[schema.GroupResource]bool, error) {
	uncached := map[schema.GroupResource]bool{}
	for _, item := range o.WatchCacheSizes {
		resource, number, ok := strings.Cut(item, "#")
		if !ok || resource == "" || strings.Contains(number, "#") {
			return nil, fmt.Errorf("--watch-cache-sizes: invalid value of watch cache size: %s; it must be RESOURCE[.GROUP]#SIZE", item)
		}
		size, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("--watch-cache-sizes: invalid size of watch cache size: %s", item)
		}
		if size < 0 {
			return nil, fmt.Errorf("--watch-cache-sizes: watch cache size cannot be negative: %s", item)
		}
		uncached[schema.ParseGroupResource(resource)] = size == 0
	}
	return uncached, nil
}

// deletion returns the configuration of deletions.
func (o *StorageOptions) deletion() registry.Deletion {
	return registry.Deletion{IgnorePropagation: o.DisableGarbageCollector, Workers: o.DeleteCollectionWorkers}
}
