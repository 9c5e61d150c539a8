package controlplane

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/admission/config"
	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Defaults of Options, as kube-apiserver's.
const (
	DefaultEventTTL                 = time.Hour
	DefaultClusterSigningDuration   = 365 * 24 * time.Hour
	DefaultLegacyTokenCleanUpPeriod = 365 * 24 * time.Hour
	DefaultRequestTimeout           = time.Minute
	DefaultMinRequestTimeout        = 30 * time.Minute
	DefaultMaxRequestsInFlight      = 400
	DefaultMaxMutatingInFlight      = 200
	DefaultServiceClusterIPRange    = "10.0.0.0/24"
	DefaultServiceNodePortRange     = "30000-32767"
	DefaultStorageCheckTimeout      = 2 * time.Second
	DefaultObjectCountInterval      = time.Minute
	// NoLimit, where a number means "at most", means any number.
	NoLimit = -1
)

// Options configure a control plane. The zero value selects the defaults. Fields are named after
// their flags, whose help describes them.
type Options struct {
	// AuthorizationModes are authz.Types in order of evaluation; empty: Node, RBAC. Members of
	// system:masters always have all permissions.
	AuthorizationModes []string
	ClosedToPublic     bool // --anonymous-auth=false
	// ListVisible makes lists and watches over all namespaces return the namespaces with permission
	// by RBAC, instead of 403.
	ListVisible bool

	FeatureGates feature.Set // the gates that are set; others have the defaults of v1.37
	// RuntimeConfig selects the served versions and resources of built-in APIs, see
	// builtin.NewEnablement; nil: the stable ones.
	RuntimeConfig map[string]string
	// DenyPrivileged rejects pods with privileged containers (--allow-privileged=false). Unlike in
	// kube-apiserver, they are allowed by default.
	DenyPrivileged bool

	// Controllers selects the controllers that run in the server, with the syntax of
	// kube-controller-manager's flag: NAME, -NAME, * for all, and additionally -* for the named
	// ones only. Empty: all.
	Controllers []string
	// KeepUnknownOwners preserves objects whose owners never existed, as in tests. They are
	// collected if the owner existed and is deleted.
	KeepUnknownOwners bool
	// NamespaceGrace is the delay before the content of a terminating namespace is deleted.
	NamespaceGrace time.Duration
	// ClusterSigningDuration is the maximum lifetime of signed certificates; 0: 8760h.
	ClusterSigningDuration time.Duration
	// LegacyTokenCleanUpPeriod is for how long a service account token that was generated
	// in a secret must not have been used to be deleted; 0: 8760h.
	LegacyTokenCleanUpPeriod time.Duration
	// EnableAdmissionPlugins are on in addition to the defaults; DisableAdmissionPlugins are off.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// AdmissionConfig is the configuration of plugins; nil without one.
	AdmissionConfig *config.Config
	// DefaultNotReadyTolerationSeconds and DefaultUnreachableTolerationSeconds are the default
	// tolerations of pods for nodes that are not ready or unreachable, in seconds; nil: 300.
	DefaultNotReadyTolerationSeconds, DefaultUnreachableTolerationSeconds *int64
	// ServiceAccountIssuers are the issuers of service account tokens: the first one issues, all
	// are accepted. Empty: https://kubernetes.default.svc.cluster.local.
	ServiceAccountIssuers []string
	// APIAudiences are the audiences of tokens for this server; empty: the issuers.
	APIAudiences                     []string
	ServiceAccountJWKSURI            string        // "": on this server
	ServiceAccountMaxTokenExpiration time.Duration // 0: any
	WithoutTokenExtension            bool          // --service-account-extend-token-expiration=false
	WithoutTokenLookup               bool          // --service-account-lookup=false
	BootstrapTokens                  bool          // --enable-bootstrap-token-auth

	ServiceClusterIPRange []netip.Prefix    // one or two; empty: 10.0.0.0/24
	ServiceNodePortRange  utilnet.PortRange // empty: 30000-32767
	// EndpointReconciler selects the publisher of the endpoints of the service default/kubernetes:
	// EndpointsByLease (the default) or EndpointsByOthers.
	EndpointReconciler string
	// PeerAdvertiseIP and PeerAdvertisePort are the address of this server for other servers; ""
	// selects the advertised address.
	PeerAdvertiseIP, PeerAdvertisePort string
	EventTTL                           time.Duration // 0: 1h
	// AggregatorRouting: services are called at one of their endpoints and not
	// at their cluster IP.
	AggregatorRouting bool
	// KubeletPreferredAddressTypes are the types of node addresses in order of preference; empty:
	// kubelet.DefaultAddressTypes.
	KubeletPreferredAddressTypes []string
	KubeletPort                  int           // of nodes that do not report it; 0: 10250
	KubeletTimeout               time.Duration // 0: 5s
	// PassRedirects forwards redirects of aggregated servers to clients.
	PassRedirects bool

	// WithoutPriorityAndFairness (--enable-priority-and-fairness=false) limits requests by two
	// numbers only. Otherwise priority and fairness shares their sum.
	WithoutPriorityAndFairness bool
	MaxRequestsInFlight        int           // 0: 400; NoLimit: no limit, and no priority and fairness
	MaxMutatingInFlight        int           // 0: 200, NoLimit: as above
	RequestTimeout             time.Duration // 0: 60s
	MinRequestTimeout          time.Duration // of watches; 0: 30m
	GoAwayChance               float64
	CORSAllowedOrigins         []string
	HSTSDirectives             []string

	// Audit selects the recorded requests and the backends; start from audit.NewOptions. The zero
	// value disables audit.
	Audit audit.Options

	// EtcdHealthTimeout and EtcdReadyTimeout bound the checks "etcd" and
	// "etcd-readiness" of either store. 0: 2s.
	EtcdHealthTimeout, EtcdReadyTimeout time.Duration
	// ObjectCountInterval is the refresh interval of the metrics of stored objects, for both
	// backends. 0: 1m; negative: disabled.
	ObjectCountInterval time.Duration
	// Filter is the last filter of requests, after authorization, for tests; may be nil.
	Filter filters.Filter
	// Checks are added to the health checks.
	Checks []telemetry.Check
}

// WithDefaults returns the options with their zero fields filled in.
func (o Options) WithDefaults() Options {
	if len(o.AuthorizationModes) == 0 {
		o.AuthorizationModes = []string{authz.TypeNode, authz.TypeRBAC}
	}
	if o.AdmissionConfig == nil {
		o.AdmissionConfig = &config.Config{}
	}
	setDefault(&o.EndpointReconciler, EndpointsByLease)
	setDefault(&o.EventTTL, DefaultEventTTL)
	setDefault(&o.ClusterSigningDuration, DefaultClusterSigningDuration)
	setDefault(&o.LegacyTokenCleanUpPeriod, DefaultLegacyTokenCleanUpPeriod)
	setDefault(&o.RequestTimeout, DefaultRequestTimeout)
	setDefault(&o.MinRequestTimeout, DefaultMinRequestTimeout)
	setDefault(&o.MaxRequestsInFlight, DefaultMaxRequestsInFlight)
	setDefault(&o.MaxMutatingInFlight, DefaultMaxMutatingInFlight)
	setDefault(&o.EtcdHealthTimeout, DefaultStorageCheckTimeout)
	setDefault(&o.EtcdReadyTimeout, DefaultStorageCheckTimeout)
	setDefault(&o.ObjectCountInterval, DefaultObjectCountInterval)
	if len(o.ServiceAccountIssuers) == 0 {
		o.ServiceAccountIssuers = []string{defaultIssuer}
	}
	if len(o.APIAudiences) == 0 {
		o.APIAudiences = o.ServiceAccountIssuers
	}
	if len(o.ServiceClusterIPRange) == 0 {
		o.ServiceClusterIPRange = []netip.Prefix{netip.MustParsePrefix(DefaultServiceClusterIPRange)}
	}
	if o.ServiceNodePortRange.Size == 0 {
		o.ServiceNodePortRange = *utilnet.ParsePortRangeOrDie(DefaultServiceNodePortRange)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Check returns all errors of options with defaults, with the names of their flags.
func (o Options) Check() error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.GoAwayChance < 0 || o.GoAwayChance > 0.02 {
		problem("--goaway-chance is %g; it must be between 0 and 0.02", o.GoAwayChance)
	}
	if o.EndpointReconciler != EndpointsByLease && o.EndpointReconciler != EndpointsByOthers {
		problem("--endpoint-reconciler-type=%s is not supported; it must be %s or %s", o.EndpointReconciler, EndpointsByLease, EndpointsByOthers)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"request-timeout", o.RequestTimeout}, {"min-request-timeout", o.MinRequestTimeout}, {"event-ttl", o.EventTTL},
		{"cluster-signing-duration", o.ClusterSigningDuration}, {"legacy-service-account-token-clean-up-period", o.LegacyTokenCleanUpPeriod},
		{"etcd-healthcheck-timeout", o.EtcdHealthTimeout}, {"etcd-readycheck-timeout", o.EtcdReadyTimeout},
	} {
		if d.value < 0 {
			problem("--%s is %s; it cannot be negative", d.flag, d.value)
		}
	}
	if _, err := feature.Defaults().With(o.FeatureGates); err != nil {
		problem("--feature-gates: %w", err)
	}
	if _, err := o.enablement(); err != nil {
		problem("--runtime-config: %w", err)
	}
	if c := o.AdmissionConfig; c != nil && c.HasManifests() && !o.Gates().Enabled(feature.ManifestBasedAdmissionControlConfig) {
		problem("staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled")
	}
	if err := filters.CheckCORS(o.CORSAllowedOrigins); err != nil {
		problem("--cors-allowed-origins: %w", err)
	}
	if err := filters.CheckHSTS(o.HSTSDirectives); err != nil {
		problem("--strict-transport-security-directives: %w", err)
	}
	return errors.Join(append(errs, o.Audit.Check(), o.checkServiceRanges(), o.checkAuthorization(), o.checkTokens(), o.checkFlowControl(), o.checkAdmission(), o.checkControllers(), o.checkPeers())...)
}

// Gates returns the feature gates that are on. The options must have been checked.
func (o Options) Gates() feature.Gates {
	gates, _ := feature.Defaults().With(o.FeatureGates)
	return gates
}

// enablement returns which resources are served.
func (o Options) enablement() (builtin.Enablement, error) {
	if len(o.RuntimeConfig) == 0 {
		return builtin.Enablement{}, nil
	}
	return builtin.NewEnablement(o.RuntimeConfig, all.Versions())
}

func (o Options) checkServiceRanges() error {
	ranges := o.ServiceClusterIPRange
	if len(ranges) > 2 {
		return fmt.Errorf("--service-cluster-ip-range contains %d ranges; at most two are possible", len(ranges))
	}
	for _, r := range ranges {
		if r.Addr().BitLen()-r.Bits() < 3 {
			return fmt.Errorf("--service-cluster-ip-range: %s is too small; at least 8 addresses are required", r)
		}
	}
	if o.ServiceNodePortRange.Base < 1 {
		return fmt.Errorf("--service-node-port-range: %s does not begin with a port", o.ServiceNodePortRange)
	}
	if len(ranges) == 2 && ranges[0].Addr().Is4() == ranges[1].Addr().Is4() {
		return errors.New("--service-cluster-ip-range: of two ranges, one must be IPv4 and the other IPv6")
	}
	return nil
}

// FirstServiceIP returns the address of the service "kubernetes".
func (o Options) FirstServiceIP() netip.Addr {
	return o.ServiceClusterIPRange[0].Masked().Addr().Next()
}
