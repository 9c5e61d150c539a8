package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
)

// Defaults of a Config.
const (
	DefaultRequestTimeout     = 5 * time.Second
	DefaultDialTimeout        = 5 * time.Second
	DefaultOpenTimeout        = 20 * time.Second
	DefaultCompactionInterval = 5 * time.Minute // as in kube-apiserver
	DefaultHealthPrefix       = "/registry"
	DefaultClusterID          = "etcd-0"         // as in kube-apiserver
	DefaultLeaseReuse         = time.Minute      // as in kube-apiserver
	DefaultSizeInterval       = 30 * time.Second // as in kube-apiserver
)

// Config specifies an etcd cluster. Endpoints are required.
type Config struct {
	// Endpoints are URLs of members of one cluster, all http or all https.
	Endpoints []string
	// CAFile contains the CA certificates for etcd's serving certificates; "" selects the CAs of
	// the operating system.
	CAFile string
	// CertFile and KeyFile contain the client certificate and its key; both or neither must be set. These
	// files and CAFile are reloaded for each connection.
	CertFile, KeyFile string
	// HealthPrefix is a prefix that this client is permitted to read. Health checks read the key
	// "health" below it. "" selects /registry.
	HealthPrefix string
	// DialTimeout is the timeout of one attempt to connect; 0 selects 5s.
	DialTimeout time.Duration
	// OpenTimeout is the maximum time that Driver waits for a response from etcd when it opens a store; 0
	// selects 20s.
	OpenTimeout time.Duration
	// RequestTimeout is the timeout of a small read, after which etcd counts as unavailable. The
	// timeout of writes and large reads is up to twice as long. 0 selects 5s.
	RequestTimeout time.Duration
	// CompactionInterval is the time between two compactions, and the age from which history is compacted. If
	// it is not positive, this client does not compact.
	CompactionInterval time.Duration
	// Dial connects to etcd; nil connects directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// LeaseReuse is the duration for which a lease is reused for keys with the same time to live.
	// It is also the maximum delay of their expiry. 0 means 60s; a negative value creates a lease
	// for each key.
	LeaseReuse time.Duration
	// SizeInterval is the duration for which the metric of the database size is cached. 0 means 30s; a
	// negative value disables the metric.
	SizeInterval time.Duration
	// NoRangeStream reads large ranges in pages, even if etcd supports streams.
	NoRangeStream bool
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Registerer registers the metrics of the store; nil disables them.
	Registerer prometheus.Registerer
	// ClusterID is the value of the label storage_cluster_id of the metrics; "" means etcd-0.
	ClusterID string
}

func (c Config) withDefaults() Config {
	if c.HealthPrefix == "" {
		c.HealthPrefix = DefaultHealthPrefix
	}
	if c.ClusterID == "" {
		c.ClusterID = DefaultClusterID
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.OpenTimeout == 0 {
		c.OpenTimeout = DefaultOpenTimeout
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.LeaseReuse == 0 {
		c.LeaseReuse = DefaultLeaseReuse
	}
	if c.SizeInterval == 0 {
		c.SizeInterval = DefaultSizeInterval
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Check returns all errors of the config, except for the content of files.
func (c Config) Check() error {
	var errs []error
	if len(c.Endpoints) == 0 {
		errs = append(errs, errors.New("no etcd server given"))
	}
	schemes := make(map[string]bool)
	for _, endpoint := range c.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("etcd server %q is not a URL such as https://10.0.0.1:2379", endpoint))
			continue
		}
		schemes[u.Scheme] = true
	}
	if len(schemes) > 1 {
		errs = append(errs, errors.New("some etcd servers are http and others https"))
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		errs = append(errs, errors.New("certificate and key for etcd must be given together"))
	}
	if !schemes["https"] && schemes["http"] && (c.CAFile != "" || c.CertFile != "") {
		errs = append(errs, errors.New("certificates for etcd are given, but its servers are http"))
	}
	if c.DialTimeout < 0 || c.OpenTimeout < 0 || c.RequestTimeout < 0 {
		errs = append(errs, errors.New("a timeout for etcd is negative"))
	}
	return errors.Join(errs...)
}

// dialOptions returns the gRPC options for connecting with Dial, if it is set.
func (c Config) dialOptions() []grpc.DialOption {
	if c.Dial == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		if u, err := url.Parse(address); err == nil && u.Host != "" { // the address may be an endpoint URL, or only its host and port
			address = u.Host
		}
		return c.Dial(ctx, "tcp", address)
	})}
}
