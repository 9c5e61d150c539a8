package host

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters/faults"
	"mainstay.dev/mainstay/internal/limits/memory"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv/embedded"
)

// Defaults of a Config, as in kube-apiserver unless noted.
const (
	DefaultDataDir                 = "mainstay-data" // Mainstay's default
	DefaultSecurePort              = 6443
	DefaultEtcdPrefix              = "/registry"
	DefaultCacheMemoryLimit        = codec.DefaultMemoryLimit // Mainstay's default
	DefaultEtcdCompactionInterval  = 5 * time.Minute
	DefaultEtcdLeaseReuse          = time.Minute
	DefaultEtcdSizeInterval        = 30 * time.Second
	DefaultMaxStreamsPerConnection = 100
	DefaultTokenWebhookVersion     = "v1beta1"
	DefaultTokenWebhookCacheTTL    = 2 * time.Minute
	// NoLimit disables a maximum.
	NoLimit = controlplane.NoLimit
	// AnyPort as Config.SecurePort selects a free port.
	AnyPort = -1
)

// Values of Config.HTTP2Server.
const (
	HTTP2Mainstay = "mainstay" // package http2
	HTTP2NetHTTP  = "net/http"
)

// Config configures a server. The zero value serves on 127.0.0.1:6443 from ./mainstay-data. Fields
// are named after their flags, whose help documents them.
type Config struct {
	// Options of the control plane that is served.
	controlplane.Options

	// DataDir contains the store, keys, certificates and the administrator's kubeconfig.
	DataDir string
	// InMemory stores all of them in memory (except a store in EtcdServers), for a temporary
	// server: DataDir is unused, nothing is written, and Host.Kubeconfig creates kubeconfigs.
	InMemory bool
	// NewStore creates an empty store even if the data directory has keys but no store, or contains
	// other files.
	NewStore bool
	// AcceptLostWrites starts on a store whose newest writes are missing, at a revision greater
	// than all that clients have seen.
	AcceptLostWrites bool

	// Listener, if set, is served instead of BindAddress and SecurePort. The
	// server closes it.
	Listener net.Listener
	// BindAddress is the address to listen on. Zero: all addresses, if AdvertiseAddress
	// can be reached from other machines, and 127.0.0.1 otherwise.
	BindAddress netip.Addr
	// bindsByDefault reports that BindAddress is all addresses by default.
	bindsByDefault    bool
	SecurePort        int // 0: 6443, AnyPort: one that is free
	PermitPortSharing bool
	// Hostname is the name of this machine; "" selects that of the operating system.
	Hostname string
	// AdvertiseAddress is where other machines reach the server; it is in the
	// serving certificate and the endpoints of default/kubernetes. Zero: derived
	// from BindAddress.
	AdvertiseAddress netip.Addr

	TLS          TLSConfig
	DisableHTTP2 bool
	MaxStreams   int // of an HTTP/2 connection; 0: 100
	// HTTP2Server selects the HTTP/2 server: HTTP2Mainstay (or "") or HTTP2NetHTTP.
	HTTP2Server  string
	ClientCAFile string
	// ServiceAccountSigningKeyFile signs service account tokens; "": the data
	// directory's own. ServiceAccountKeyFiles verify more of them.
	ServiceAccountSigningKeyFile string
	ServiceAccountKeyFiles       []string
	// ServiceAccountSigningEndpoint is the socket of a program that signs and provides keys
	// instead; "" without one.
	ServiceAccountSigningEndpoint string
	// TokenAuthFile contains bearer tokens; "" without one.
	TokenAuthFile string
	// OpenID Connect providers are configured by AuthenticationConfigFile or by OIDC.
	AuthenticationConfigFile string
	OIDC                     OIDCConfig
	// AdmissionControlConfigFile is an AdmissionConfiguration, which sets AdmissionConfig; ""
	// without one.
	AdmissionControlConfigFile string
	// TokenWebhookConfigFile is the kubeconfig of a webhook for TokenReviews; "" without one.
	TokenWebhookConfigFile string
	TokenWebhookVersion    string        // "": v1beta1
	TokenWebhookCacheTTL   time.Duration // 0: 2m; negative: no cache
	AuthorizationFiles     AuthorizationFiles
	// modesGiven: Options.AuthorizationModes are not the default.
	modesGiven bool
	// RequestHeader configures front proxies; ProxyClientCertFile is this
	// server's client certificate as one.
	RequestHeader                           RequestHeaderConfig
	ProxyClientCertFile, ProxyClientKeyFile string
	// PeerCAFile signs the certificates of other servers, which requests for unknown
	// resources are sent on to; "": they are not.
	PeerCAFile string
	// KubeletClientCertFile is the client certificate for kubelets, KubeletCAFile the authority of
	// their certificates; "" disables client authentication and verification.
	KubeletClientCertFile, KubeletClientKeyFile, KubeletCAFile string

	// EgressSelectorConfigFile is an EgressSelectorConfiguration: how other servers are
	// connected to; "": directly.
	EgressSelectorConfigFile string
	// Signing configures the signer of CertificateSigningRequests.
	Signing SigningConfig

	// EtcdServers are the URLs of an etcd cluster that is used instead of the
	// store in DataDir.
	EtcdServers []string
	// EtcdServersOverrides are other clusters that keep single built-in resources, each as
	// group/resource#URL;URL.
	EtcdServersOverrides []string
	EtcdTLS              EtcdTLSConfig
	// EtcdCompactionInterval is how often etcd is compacted, to the revision of
	// one interval before. 0: 5m; less: this server does not compact.
	EtcdCompactionInterval time.Duration
	// EtcdLeaseReuse is how long one etcd lease is reused for expiring objects. 0: 1m; negative: a
	// lease for each object. EtcdSizeInterval is the refresh interval of the size metric. 0: 30s;
	// negative: disabled.
	EtcdLeaseReuse, EtcdSizeInterval time.Duration
	EtcdPrefix                       string // of the control plane that is served; "": /registry
	// EncryptionConfigFile configures the encryption of stored values, for both backends; ""
	// disables it. If EncryptionConfigReload is set, the server follows changes.
	EncryptionConfigFile   string
	EncryptionConfigReload bool
	WithoutWatchCache      bool
	// MemoryLimit is the target memory size of the server, in bytes; it limits the memory of large
	// requests. 0: no limit. The process must also set the limit of the garbage collector.
	MemoryLimit int64
	// MemoryPressed reports whether the process is short of memory; caches then release memory. nil
	// means never.
	MemoryPressed func() bool
	// CacheMemoryLimit bounds the cached encodings of objects, in bytes.
	// 0: 256 MiB, or an eighth of MemoryLimit where that is less; NoLimit: no bound.
	CacheMemoryLimit int64
	// HistoryRetention is how long old revisions are retained, from which watches can start. 0: 5m;
	// negative: forever.
	HistoryRetention time.Duration
	// StorageQuota is the size in bytes from which the store in DataDir accepts deletions
	// only. 0 or NoLimit: no limit.
	StorageQuota int64

	// Flags are the flags of the process and their values, for /flagz.
	Flags map[string]string

	ShutdownDelay      time.Duration
	ShutdownRetryAfter bool
	WithoutProfiling   bool

	// Version of this program; "": unknown.
	Version string
	// Logger is for operators. Nil discards.
	Logger *slog.Logger
	// Faults injects faults into requests of a test server, configurable at faults.Path; nil
	// disables it. It sets Options.Filter.
	Faults *faults.Set
	// World is that of a server for tests; nil is the real one.
	World *simulation.World
	// OnServing is called once, when the server is ready.
	OnServing func(Serving)
}

// TLSConfig configures TLS. Its zero value uses a certificate of the server's own
// CA and Go's choice of versions and cipher suites.
type TLSConfig struct {
	CertFile, KeyFile string
	// SNI are further certificates, selected by server name.
	SNI          []SNICertificate
	MinVersion   uint16   // of crypto/tls; 0: TLS 1.2
	CipherSuites []uint16 // constants of crypto/tls, for TLS 1.2; empty: Go's defaults
	// CurvePreferences are the permitted key exchanges; empty: Go's defaults.
	CurvePreferences []tls.CurveID
}

// EtcdTLSConfig configures TLS of connections to etcd.
type EtcdTLSConfig struct {
	CAFile            string // "": the operating system's CA certificates
	CertFile, KeyFile string // client certificate; both or neither
}

// SNICertificate is a certificate for some host names.
type SNICertificate struct {
	CertFile, KeyFile string
	// Names are host names, whose first label may be *. Empty: the names in the certificate.
	Names []string
}

// Serving is the address of a server that is ready.
type Serving struct {
	URL string
	// Kubeconfig is the absolute path of the administrator's kubeconfig; "" in
	// memory.
	Kubeconfig string
}

// withDefaults fills in the zero fields.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.DataDir, DefaultDataDir)
	if name, err := os.Hostname(); err == nil {
		setDefault(&c.Hostname, name)
	}
	if !c.BindAddress.IsValid() {
		c.BindAddress = c.defaultBindAddress()
		c.bindsByDefault = c.BindAddress.IsUnspecified()
	}
	setDefault(&c.SecurePort, DefaultSecurePort)
	setDefault(&c.EtcdPrefix, DefaultEtcdPrefix)
	setDefault(&c.EtcdCompactionInterval, DefaultEtcdCompactionInterval)
	setDefault(&c.EtcdLeaseReuse, DefaultEtcdLeaseReuse)
	setDefault(&c.EtcdSizeInterval, DefaultEtcdSizeInterval)
	setDefault(&c.CacheMemoryLimit, c.defaultCacheMemory())
	c.modesGiven = len(c.AuthorizationModes) > 0
	if file := c.AdmissionControlConfigFile; file != "" {
		read, err := config.Read(file)
		if err != nil {
			return c, fmt.Errorf("--admission-control-config-file: %w", err)
		}
		c.AdmissionConfig = read
	}
	c.Options = c.Options.WithDefaults()
	c.AuthorizationFiles.setDefaults()
	setDefault(&c.MaxStreams, DefaultMaxStreamsPerConnection)
	setDefault(&c.HTTP2Server, HTTP2Mainstay)
	setDefault(&c.Version, "unknown")
	setDefault(&c.TokenWebhookVersion, DefaultTokenWebhookVersion)
	setDefault(&c.TokenWebhookCacheTTL, DefaultTokenWebhookCacheTTL)
	if c.Faults != nil && c.World == nil {
		c.World = simulation.New(simulation.Config{})
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("find the data directory: %w", err)
	}
	c.DataDir = dir
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// defaultCacheMemory is the default limit of cached encodings, in bytes.
func (c Config) defaultCacheMemory() int64 {
	if c.MemoryLimit > 0 {
		return min(DefaultCacheMemoryLimit, c.MemoryLimit/8)
	}
	return DefaultCacheMemoryLimit
}

// check returns all errors of a config with defaults, by flag.
func (c Config) check() error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.SecurePort != AnyPort && (c.SecurePort < 1 || c.SecurePort > 65535) {
		problem("--secure-port is %d; it must be between 1 and 65535", c.SecurePort)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		problem("--tls-cert-file and --tls-private-key-file must be given together")
	}
	if (c.ProxyClientCertFile == "") != (c.ProxyClientKeyFile == "") {
		problem("--proxy-client-cert-file and --proxy-client-key-file must be given together")
	}
	if (c.KubeletClientCertFile == "") != (c.KubeletClientKeyFile == "") {
		problem("--kubelet-client-certificate and --kubelet-client-key must be given together")
	}
	if c.PeerCAFile != "" && !c.Gates().Enabled(feature.UnknownVersionInteroperabilityProxy) {
		problem("--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on")
	}
	if c.ShutdownDelay < 0 {
		problem("--shutdown-delay-duration is %s; it cannot be negative", c.ShutdownDelay)
	}
	if c.MemoryLimit != 0 && c.MemoryLimit < memory.MinLimit {
		problem("--memory-limit is %d bytes; the least is %dMi", c.MemoryLimit, memory.MinLimit>>20)
	}
	if c.StorageQuota > 0 && c.StorageQuota < embedded.MinQuota {
		problem("--storage-quota is %d bytes; the minimum is %dMi", c.StorageQuota, embedded.MinQuota>>20)
	}
	if c.StorageQuota > 0 && len(c.EtcdServers) > 0 {
		problem("--storage-quota limits the store in --data-dir, and cannot be set with --etcd-servers; set --quota-backend-bytes of etcd instead")
	}
	if c.CacheMemoryLimit < NoLimit {
		problem("--cache-memory-limit is %d; it cannot be negative", c.CacheMemoryLimit)
	}
	if c.MaxStreams < 0 {
		problem("--http2-max-streams-per-connection is %d; it cannot be negative", c.MaxStreams)
	}
	if c.HTTP2Server != HTTP2Mainstay && c.HTTP2Server != HTTP2NetHTTP {
		problem("--http2-server is %q; it must be %s or %s", c.HTTP2Server, HTTP2Mainstay, HTTP2NetHTTP)
	}
	if c.EncryptionConfigReload && c.EncryptionConfigFile == "" {
		problem("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config")
	}
	if !strings.HasPrefix(c.EtcdPrefix, "/") {
		problem("--etcd-prefix is %q; it must start with /", c.EtcdPrefix)
	}
	if err := c.checkEtcd(); err != nil {
		problem("%w", err)
	}
	return errors.Join(append(errs, c.Options.Check(), c.RequestHeader.check(), c.Signing.check(), c.checkAuthentication(), c.checkAuthorization())...)
}

// hosts returns the names and addresses of the serving certificate.
func (c Config) hosts() []string {
	hosts := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		c.FirstServiceIP().String(),
	}
	if c.Hostname != "" {
		hosts = append(hosts, c.Hostname)
	}
	for _, addr := range []netip.Addr{c.BindAddress, c.AdvertiseAddress} {
		if addr.IsValid() && !addr.IsUnspecified() {
			hosts = append(hosts, addr.String())
		}
	}
	if c.BindAddress.IsUnspecified() && !c.AdvertiseAddress.IsValid() {
		hosts = append(hosts, ownAddresses()...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// ownAddresses returns the global unicast addresses of this machine.
func ownAddresses() []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil // only the names and addresses of the config then
	}
	var found []string
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			found = append(found, ip.IP.String())
		}
	}
	return found
}

func (c Config) minTLSVersion() uint16 {
	if c.TLS.MinVersion == 0 {
		return tls.VersionTLS12
	}
	return c.TLS.MinVersion
}
