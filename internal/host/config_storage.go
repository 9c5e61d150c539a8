package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Defaults of StorageConfig.
const (
	DefaultDataDir    = "mainstay-data"
	DefaultEtcdPrefix = "/registry" // as in kube-apiserver

	DefaultStorageInitializationTimeout = time.Minute // as in kube-apiserver
)

// BackendEtcd3 is the only backend that kube-apiserver accepts as --storage-backend.
const BackendEtcd3 = "etcd3"

// StorageConfig selects and configures the store.
type StorageConfig struct {
	// DataDir contains the embedded store, keys, certificates and the administrator's kubeconfig; ""
	// selects ./mainstay-data.
	DataDir string
	// InMemory keeps the keys and certificates in memory, and also the store unless it is in etcd. DataDir
	// is then unused, no files are written, and only Host.Kubeconfig creates kubeconfigs.
	InMemory bool
	// Prefix is the prefix of all keys of the served control plane; "" selects /registry.
	Prefix string
	// DisableWatchCache disables the watch caches, so that all reads and watches use the store.
	DisableWatchCache bool
	// Backend is "" or BackendEtcd3. It does not select the store; see EtcdConfig.Servers.
	Backend string
	// InitializationTimeout is the maximum time to wait at startup until etcd responds; 0 selects 1m.
	InitializationTimeout time.Duration

	Embedded   EmbeddedConfig
	Etcd       EtcdConfig
	Encryption EncryptionConfig
	History    HistoryConfig
	Backup     BackupConfig
}

// AddFlags defines the flags of the config and of its groups.
func (c *StorageConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.DataDir, "data-dir", "./"+DefaultDataDir, "data directory: the store, keys, certificates and admin.kubeconfig")
	c.Embedded.addFlags(fs)
	c.Etcd.addFlags(fs)
	fs.StringVar(&c.Prefix, "etcd-prefix", DefaultEtcdPrefix, "prefix of all keys in the store")
	c.Encryption.addFlags(fs)
	c.History.addFlags(fs)
	c.Backup.addFlags(fs)
	flags.FixedVar(fs, "storage-media-type", "application/vnd.kubernetes.protobuf", "encoding of built-in kinds in the store; no other value is supported yet")
	flags.EnabledVar(fs, &c.DisableWatchCache, "watch-cache", "serve reads and watches from memory")
	fs.StringVar(&c.Backend, "storage-backend", "", "etcd3, as in kube-apiserver; --etcd-servers selects the store, also without this flag")
	fs.DurationVar(&c.InitializationTimeout, "storage-initialization-timeout", DefaultStorageInitializationTimeout, "maximum time to wait for etcd at the start; after it, the server exits; 0 selects the default")
}

func (c *StorageConfig) setDefaults() error {
	setDefault(&c.DataDir, DefaultDataDir)
	setDefault(&c.Prefix, DefaultEtcdPrefix)
	setDefault(&c.InitializationTimeout, DefaultStorageInitializationTimeout)
	c.Etcd.setDefaults()
	c.History.setDefaults(!c.InMemory && len(c.Etcd.Servers) == 0)
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("find the data directory: %w", err)
	}
	c.DataDir = dir
	return nil
}

func (c *StorageConfig) check(gates feature.Gates) error {
	var errs []error
	if !strings.HasPrefix(c.Prefix, "/") {
		errs = append(errs, fmt.Errorf("--etcd-prefix is %q; it must start with /", c.Prefix))
	}
	if c.Embedded.Snapshot != "" && (!c.InMemory || len(c.Etcd.Servers) > 0) {
		errs = append(errs, errors.New("only an in-memory store can be initialized from a snapshot"))
	}
	if c.Embedded.Quota > 0 && len(c.Etcd.Servers) > 0 {
		errs = append(errs, errors.New("--storage-quota limits the store in --data-dir, and cannot be set with --etcd-servers; set --quota-backend-bytes of etcd instead"))
	}
	if c.Backend != "" && c.Backend != BackendEtcd3 {
		errs = append(errs, fmt.Errorf("--storage-backend invalid, allowed values: etcd3. If not specified, it will default to 'etcd3'; it is %q", c.Backend))
	}
	if c.InitializationTimeout < 0 {
		errs = append(errs, fmt.Errorf("--storage-initialization-timeout is %s; it cannot be negative", c.InitializationTimeout))
	}
	return errors.Join(append(errs, c.Embedded.check(), c.Encryption.check(), c.History.check(), c.Backup.check(c.DataDir, len(c.Etcd.Servers) > 0), c.checkServers(gates))...)
}

// EmbeddedConfig configures the embedded store.
type EmbeddedConfig struct {
	// NewStore allows an empty store to be created even if the data directory contains keys but no store,
	// or contains files of another program.
	NewStore bool
	// AcceptLostWrites opens the store even if its newest writes are missing. The store then continues at a
	// revision that is greater than all revisions that clients have seen.
	AcceptLostWrites bool
	// HistoryRetention is the time for which replaced and deleted objects are retained for watches; 0
	// selects 5m, and a negative value retains them forever.
	HistoryRetention time.Duration
	// Snapshot is a snapshot file with the initial content of an in-memory store; "" selects an empty
	// store.
	Snapshot string
	// Quota is the size in bytes above which the store accepts only deletions; 0 and NoLimit disable
	// it.
	Quota int64
}

func (c *EmbeddedConfig) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.NewStore, "new-store", false, "create an empty store if --data-dir has keys but no store, or contains files of another program; existing files are not changed")
	fs.BoolVar(&c.AcceptLostWrites, "accept-lost-writes", false, "start although the newest writes of the store are missing, and continue at a resourceVersion that no client has seen, so that clients list again")
	fs.DurationVar(&c.HistoryRetention, "history-retention", embedded.DefaultRetention, "how long replaced and deleted objects of the embedded store stay available to watches; a negative value keeps them forever")
	flags.BytesVar(fs, &c.Quota, "storage-quota", "0", "maximum size of the embedded store, such as 512Mi or 2Gi; above it only deletions are accepted; 0 disables the limit")
}

func (c *EmbeddedConfig) check() error {
	if c.Quota > 0 && c.Quota < embedded.MinQuota {
		return fmt.Errorf("--storage-quota is %d bytes; the minimum is %dMi", c.Quota, embedded.MinQuota>>20)
	}
	return nil
}

// Defaults of EtcdConfig, as in kube-apiserver.
const (
	DefaultEtcdCompactionInterval = 5 * time.Minute
	DefaultEtcdLeaseReuse         = time.Minute
	DefaultEtcdSizeInterval       = 30 * time.Second
)

// EtcdConfig selects and configures an etcd cluster.
type EtcdConfig struct {
	// Servers are the URLs of the etcd cluster; empty selects the embedded store.
	Servers []string
	// Overrides are separate etcd clusters for individual built-in resources, each as
	// group/resource#URL;URL.
	Overrides []string
	TLS       EtcdTLSConfig
	// CompactionInterval is the time between two compactions, and the age from which history is compacted;
	// 0 selects 5m, and a negative value disables compaction by this server.
	CompactionInterval time.Duration
	// LeaseReuse is the duration for which one lease is reused for expiring objects; 0 selects 1m,
	// and a negative value creates a lease for each object.
	LeaseReuse time.Duration
	// SizeInterval is the refresh interval of the size metric; 0 selects 30s, and a negative value
	// disables the metric.
	SizeInterval time.Duration
}

// EtcdTLSConfig configures TLS of connections to etcd.
type EtcdTLSConfig struct {
	// CAFile contains the CA certificates that verify etcd; "" selects the operating system's.
	CAFile string
	// CertFile and KeyFile are the client certificate and its key. Both or neither must be set.
	CertFile, KeyFile string
}

func (c *EtcdConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.Servers, "etcd-servers", nil, "URLs of the etcd cluster to use instead of the embedded store, comma-separated")
	fs.StringSliceVar(&c.Overrides, "etcd-servers-overrides", nil, "etcd clusters for individual built-in resources, comma-separated, each as group/resource#URL;URL: /events#https://10.0.0.9:2379; not possible for services, ipaddresses and resourcequotas")
	fs.StringVar(&c.TLS.CAFile, "etcd-cafile", "", "CA certificates for etcd's serving certificates (default: the operating system's)")
	fs.StringVar(&c.TLS.CertFile, "etcd-certfile", "", "client certificate for etcd")
	fs.StringVar(&c.TLS.KeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	flags.PeriodVar(fs, &c.CompactionInterval, "etcd-compaction-interval", DefaultEtcdCompactionInterval, "interval of etcd compaction; 0 disables it")
	flags.PeriodVar(fs, &c.SizeInterval, "etcd-db-metric-poll-interval", DefaultEtcdSizeInterval, "refresh interval of the metric apiserver_storage_size_bytes, the size of etcd's database; 0 disables it")
	flags.PeriodSecondsVar(fs, &c.LeaseReuse, "lease-reuse-duration-seconds", DefaultEtcdLeaseReuse, "how long one etcd lease is reused for expiring objects; expiry is delayed by up to this duration; 0 gives each object its own lease")
}

func (c *EtcdConfig) setDefaults() {
	setDefault(&c.CompactionInterval, DefaultEtcdCompactionInterval)
	setDefault(&c.LeaseReuse, DefaultEtcdLeaseReuse)
	setDefault(&c.SizeInterval, DefaultEtcdSizeInterval)
}

// EncryptionConfig configures the encryption of stored values.
type EncryptionConfig struct {
	// File is an EncryptionConfiguration; "" disables encryption.
	File string
	// Reload reloads the file when it changes.
	Reload bool
}

func (c *EncryptionConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.File, "encryption-provider-config", "", "EncryptionConfiguration of apiserver.config.k8s.io/v1: which resources are encrypted in the store, and how")
	fs.BoolVar(&c.Reload, "encryption-provider-config-automatic-reload", false, "reload --encryption-provider-config when the file changes")
}

func (c *EncryptionConfig) check() error {
	if c.Reload && c.File == "" {
		return errors.New("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config")
	}
	return nil
}
