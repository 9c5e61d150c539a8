package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/kubelet"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/telemetry"
)

//go:embed upstream-flags.tsv
var upstreamFlags string

// serveFlags are the flags of serve with their values.
type serveFlags struct {
	config   host.Config
	log      telemetry.LogConfig
	version  bool
	sections []section
	tests    testFlags
	all      *pflag.FlagSet
}

// section is a group of flags in the help.
type section struct {
	title string
	flags *pflag.FlagSet
}

func newServeFlags() *serveFlags {
	f := &serveFlags{}
	f.section("Storage", f.storage)
	f.section("Serving", f.serving)
	f.section("TLS", f.tls)
	f.section("Authentication and authorization", f.auth)
	f.section("Admission and controllers", f.admission)
	f.section("Requests", f.requests)
	f.section("Audit", f.audit)
	f.section("Stopping", f.stopping)
	f.section("Aggregation", f.aggregation)
	f.section("Kubelets", f.kubelets)
	f.section("Connections to others", f.egress)
	f.section("Features", f.features)
	f.section("Servers for tests", f.testing)
	f.section("Logs", f.logs)
	return f
}

func (f *serveFlags) section(title string, add func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(title, pflag.ContinueOnError)
	flags.SortFlags = false
	add(flags)
	f.sections = append(f.sections, section{title, flags})
}

// values returns the values of all flags that are supported.
func (f *serveFlags) values() map[string]string {
	values := map[string]string{}
	f.all.VisitAll(func(flag *pflag.Flag) {
		if _, unsupported := flag.Value.(*refused); !unsupported {
			values[flag.Name] = flag.Value.String()
		}
	})
	return values
}

// addTo registers all flags, and the unsupported flags of kube-apiserver, which are rejected.
func (f *serveFlags) addTo(flags *pflag.FlagSet) {
	f.all = flags
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, section := range f.sections {
		flags.AddFlagSet(section.flags)
	}
	for _, upstream := range tableRows(upstreamFlags) {
		if name := upstream[0]; flags.Lookup(name) == nil {
			flag := flags.VarPF(&refused{kind: upstream[1]}, name, "", "not supported yet")
			flag.Hidden = true
			if upstream[1] == "bool" {
				flag.NoOptDefVal = "true"
			}
		}
	}
}

// check returns one error for each flag that cannot be honoured.
func (f *serveFlags) check() error {
	var errs []error
	f.all.Visit(func(flag *pflag.Flag) {
		if _, ok := flag.Value.(*refused); ok {
			errs = append(errs, fmt.Errorf("--%s is not supported yet", flag.Name))
		}
	})
	return errors.Join(append(errs, f.simulate())...)
}

func (f *serveFlags) usage(c *cobra.Command) error {
	out := c.OutOrStderr()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
	for _, section := range f.sections {
		fmt.Fprintf(out, "\n%s:\n%s", section.title, section.flags.FlagUsagesWrapped(110))
	}
	return nil
}

func (f *serveFlags) storage(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.DataDir, "data-dir", "./"+host.DefaultDataDir, "data directory: the store, keys, certificates and admin.kubeconfig")
	flags.BoolVar(&c.NewStore, "new-store", false, "create an empty store if --data-dir has keys but no store, or contains files of another program; existing files are not changed")
	flags.BoolVar(&c.AcceptLostWrites, "accept-lost-writes", false, "start although the newest writes of the store are missing, and continue at a resourceVersion that no client has seen, so that clients list again")
	flags.DurationVar(&c.HistoryRetention, "history-retention", 5*time.Minute, "how long replaced and deleted objects of the embedded store stay available to watches; a negative value keeps them forever")
	flags.Var(&bytesOrNoLimit{&c.StorageQuota, "0"}, "storage-quota", "maximum size of the embedded store, such as 512Mi or 2Gi; above it only deletions are accepted; 0 disables the limit")
	flags.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "URLs of the etcd cluster to use instead of the embedded store, comma-separated")
	flags.StringSliceVar(&c.EtcdServersOverrides, "etcd-servers-overrides", nil, "etcd clusters for individual built-in resources, comma-separated, each as group/resource#URL;URL: /events#https://10.0.0.9:2379; not possible for services, ipaddresses and resourcequotas")
	flags.StringVar(&c.EtcdTLS.CAFile, "etcd-cafile", "", "CA certificates for etcd's serving certificates (default: the operating system's)")
	flags.StringVar(&c.EtcdTLS.CertFile, "etcd-certfile", "", "client certificate for etcd")
	flags.StringVar(&c.EtcdTLS.KeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	flags.Var(&zeroIsNever{&c.EtcdCompactionInterval, host.DefaultEtcdCompactionInterval}, "etcd-compaction-interval", "interval of etcd compaction; 0 disables it")
	flags.Var(&zeroIsNever{&c.ObjectCountInterval, controlplane.DefaultObjectCountInterval}, "etcd-count-metric-poll-period", "refresh interval of the metrics with object counts, for the embedded store and etcd; 0 disables them")
	flags.Var(&zeroIsNever{&c.EtcdSizeInterval, host.DefaultEtcdSizeInterval}, "etcd-db-metric-poll-interval", "refresh interval of the metric apiserver_storage_size_bytes, the size of etcd's database; 0 disables it")
	flags.Var(&zeroSecondsIsNever{seconds{&c.EtcdLeaseReuse, host.DefaultEtcdLeaseReuse}}, "lease-reuse-duration-seconds", "how long one etcd lease is reused for expiring objects; expiry is delayed by up to this duration; 0 gives each object its own lease")
	flags.DurationVar(&c.EtcdHealthTimeout, "etcd-healthcheck-timeout", controlplane.DefaultStorageCheckTimeout, "timeout of the health check \"etcd\"")
	flags.DurationVar(&c.EtcdReadyTimeout, "etcd-readycheck-timeout", controlplane.DefaultStorageCheckTimeout, "timeout of the readiness check \"etcd-readiness\"")
	flags.StringVar(&c.EtcdPrefix, "etcd-prefix", host.DefaultEtcdPrefix, "prefix of all keys in the store")
	flags.StringVar(&c.EncryptionConfigFile, "encryption-provider-config", "", "EncryptionConfiguration of apiserver.config.k8s.io/v1: which resources are encrypted in the store, and how")
	flags.BoolVar(&c.EncryptionConfigReload, "encryption-provider-config-automatic-reload", false, "reload --encryption-provider-config when the file changes")
	flags.Var(&only{value: "application/vnd.kubernetes.protobuf"}, "storage-media-type", "encoding of built-in kinds in the store; no other value is supported yet")
	flags.Var(opposite(&c.WithoutWatchCache), "watch-cache", "serve reads and watches from memory")
	flags.Var(&bytesOrNoLimit{&c.MemoryLimit, ""}, "memory-limit", "memory limit of the server, such as 512Mi or 2Gi: near it, large requests wait or receive 429, and caches shrink; 0 disables it (default GOMEMLIMIT, or the limit of the control group or the machine)")
	flags.Var(&bytesOrNoLimit{&c.CacheMemoryLimit, "256Mi"}, "cache-memory-limit", "maximum size of the cache of encoded objects, such as 512Mi or 2Gi; 0 disables the limit")
	flags.DurationVar(&c.EventTTL, "event-ttl", controlplane.DefaultEventTTL, "lifetime of events")
	asBool(flags, "watch-cache")
}

func (f *serveFlags) serving(flags *pflag.FlagSet) {
	c := &f.config
	flags.Var(&address{&c.BindAddress, ""}, "bind-address", "address to listen on; 0.0.0.0 and :: mean all addresses of this machine (default 127.0.0.1, or all addresses if --advertise-address is not a loopback address)")
	flags.Var(&port{&c.SecurePort, host.DefaultSecurePort}, "secure-port", "port to listen on; 0 selects a free port, which is printed and written to admin.kubeconfig")
	flags.Var(&address{&c.AdvertiseAddress, ""}, "advertise-address", "address under which other machines reach the server; it is part of the serving certificate and of the endpoints of the service default/kubernetes")
	flags.StringVar(&c.EndpointReconciler, "endpoint-reconciler-type", controlplane.EndpointsByLease, "who publishes the endpoints of the service default/kubernetes: lease (this server and all servers with the same etcd) or none (another program)")
	flags.Var(&prefixes{to: &c.ServiceClusterIPRange}, "service-cluster-ip-range", "one or two CIDRs for service addresses (default "+controlplane.DefaultServiceClusterIPRange+")")
	flags.Var(&c.ServiceNodePortRange, "service-node-port-range", "range of node ports for services, such as 30000-32767 (default "+controlplane.DefaultServiceNodePortRange+")")
	flags.BoolVar(&c.PermitPortSharing, "permit-port-sharing", false, "allow several processes to listen on the port (SO_REUSEPORT)")
	flags.BoolVar(&c.DisableHTTP2, "disable-http2-serving", false, "serve HTTP/1.1 only")
	flags.Var(&zeroIsDefault{&c.MaxStreams, host.DefaultMaxStreamsPerConnection}, "http2-max-streams-per-connection", "maximum number of concurrent requests of an HTTP/2 connection; 0 selects the default")
	flags.StringVar(&c.HTTP2Server, "http2-server", host.HTTP2Mainstay, "HTTP/2 implementation: mainstay, or the slower net/http, to find out whether mainstay's implementation causes a problem")
}

func (f *serveFlags) tls(flags *pflag.FlagSet) {
	t := &f.config.TLS
	flags.StringVar(&t.CertFile, "tls-cert-file", "", "serving certificate, followed by its chain (default: issued by the server's own CA)")
	flags.StringVar(&t.KeyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.Var(&sniCertificates{&t.SNI}, "tls-sni-cert-key", "additional serving certificate as CERT,KEY or CERT,KEY:NAME,...; may be repeated")
	flags.Var(&tlsVersion{to: &t.MinVersion}, "tls-min-version", "minimum TLS version: "+strings.Join(tlsVersionNames(), ", ")+" (default VersionTLS12)")
	flags.Var(&curves{&t.CurvePreferences}, "tls-curve-preferences", "allowed key exchanges, as numbers of crypto/tls.CurveID, comma-separated; Go selects among them (default: Go's)")
	flags.Var(&cipherSuites{to: &t.CipherSuites}, "tls-cipher-suites", "TLS 1.2 cipher suites, comma-separated (default: Go's)")
	flags.StringSliceVar(&f.config.HSTSDirectives, "strict-transport-security-directives", nil, "HSTS directives to send, comma-separated: max-age=SECONDS, includeSubDomains, preload")
}

func (f *serveFlags) auth(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.ClientCAFile, "client-ca-file", "", "CA certificates for client certificates, in addition to the server's own CA; the common name is the user, the organizations are the groups")
	flags.StringVar(&c.RequestHeader.ClientCAFile, "requestheader-client-ca-file", "", "CA certificates of front proxies, which authenticate users with request headers (default: the server's own front proxy CA)")
	flags.StringSliceVar(&c.RequestHeader.AllowedNames, "requestheader-allowed-names", nil, "common names allowed in certificates of front proxies, comma-separated (default: any)")
	flags.StringSliceVar(&c.RequestHeader.UsernameHeaders, "requestheader-username-headers", nil, "request headers with the user name, such as X-Remote-User")
	flags.StringSliceVar(&c.RequestHeader.UIDHeaders, "requestheader-uid-headers", nil, "request headers with the user's UID, such as X-Remote-Uid")
	flags.StringSliceVar(&c.RequestHeader.GroupHeaders, "requestheader-group-headers", nil, "request headers with the user's groups, such as X-Remote-Group")
	flags.StringSliceVar(&c.RequestHeader.ExtraHeadersPrefix, "requestheader-extra-headers-prefix", nil, "prefixes of request headers with extra attributes of the user, such as X-Remote-Extra-")
	flags.Var(opposite(&c.ClosedToPublic), "anonymous-auth", "treat requests without credentials as system:anonymous instead of rejecting them")
	flags.StringArrayVar(&c.ServiceAccountIssuers, "service-account-issuer", nil, "issuer of service account tokens; if it is an https URL, other programs find the keys there; may be repeated: tokens are issued with the first issuer and accepted with all (default https://kubernetes.default.svc.cluster.local)")
	flags.StringVar(&c.ServiceAccountSigningKeyFile, "service-account-signing-key-file", "", "private RSA or ECDSA key that signs service account tokens (default: the data directory's own)")
	flags.StringArrayVar(&c.ServiceAccountKeyFiles, "service-account-key-file", nil, "additional RSA or ECDSA keys that verify service account tokens; may be repeated")
	flags.StringVar(&c.ServiceAccountSigningEndpoint, "service-account-signing-endpoint", "", "socket of a program that signs service account tokens and provides the keys to verify them, instead of key files (ExternalJWTSigner of k8s.io/externaljwt)")
	flags.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", "", "https URL of the service account token keys in the OpenID discovery document (default: this server)")
	flags.StringSliceVar(&c.APIAudiences, "api-audiences", nil, "audiences of tokens for this server, comma-separated (default: the issuers of service account tokens)")
	flags.DurationVar(&c.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0, "maximum lifetime of requested service account tokens, at least 1h; 0 disables the limit")
	flags.Var(opposite(&c.WithoutTokenExtension), "service-account-extend-token-expiration", "extend the lifetime of tokens in pods to one year, and count the requests with tokens that should have been renewed")
	flags.Var(opposite(&c.WithoutTokenLookup), "service-account-lookup", "accept the tokens of secrets only while the secret and the service account exist")
	asBool(flags, "service-account-extend-token-expiration")
	asBool(flags, "service-account-lookup")
	flags.StringVar(&c.TokenAuthFile, "token-auth-file", "", "file of bearer tokens, read at startup: lines of TOKEN,USER,UID or TOKEN,USER,UID,\"GROUP,...\"")
	flags.BoolVar(&c.BootstrapTokens, "enable-bootstrap-token-auth", false, "accept the tokens of secrets of the type bootstrap.kubernetes.io/token in kube-system")
	flags.StringVar(&c.TokenWebhookConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that authenticates bearer tokens with TokenReviews")
	flags.StringVar(&c.TokenWebhookVersion, "authentication-token-webhook-version", host.DefaultTokenWebhookVersion, "version of the TokenReviews: v1 or v1beta1")
	flags.Var(&zeroIsNever{&c.TokenWebhookCacheTTL, host.DefaultTokenWebhookCacheTTL}, "authentication-token-webhook-cache-ttl", "how long responses of the token webhook are cached; 0 disables the cache")
	f.oidc(flags)
	flags.StringSliceVar(&c.AuthorizationModes, "authorization-mode", nil, "authorizers, in the order of evaluation: "+strings.Join(controlplane.AuthorizationModes(), ", ")+" (default Node,RBAC)")
	a := &c.AuthorizationFiles
	flags.StringVar(&a.ConfigFile, "authorization-config", "", "AuthorizationConfiguration of apiserver.config.k8s.io/v1: authorizers with webhooks and match conditions, instead of --authorization-mode and the webhook flags; reloaded when the file changes")
	flags.StringVar(&a.WebhookConfigFile, "authorization-webhook-config-file", "", "kubeconfig of the webhook of the mode Webhook, which receives SubjectAccessReviews")
	flags.StringVar(&a.WebhookVersion, "authorization-webhook-version", host.DefaultAuthorizationWebhookVersion, "version of the SubjectAccessReviews: v1 or v1beta1")
	flags.Var(&zeroIsNever{&a.WebhookAuthorizedTTL, host.DefaultAuthorizedTTL}, "authorization-webhook-cache-authorized-ttl", "how long positive decisions of the webhook are cached; 0 disables the cache")
	flags.Var(&zeroIsNever{&a.WebhookUnauthorizedTTL, host.DefaultUnauthorizedTTL}, "authorization-webhook-cache-unauthorized-ttl", "how long negative decisions of the webhook are cached; 0 disables the cache")
	flags.BoolVar(&c.ListVisible, "list-visible", false, "respond to lists and watches of all namespaces with the objects of the namespaces that RBAC allows the user to read, instead of 403; watches follow changes of the permissions")
	flags.StringVar(&a.PolicyFile, "authorization-policy-file", "", "policy file of the mode ABAC, one policy per line, read at startup")
	flags.Var(opposite(&c.DenyPrivileged), "allow-privileged", "allow privileged containers in pods; unlike in kube-apiserver, this is the default")
	asBool(flags, "anonymous-auth")
	asBool(flags, "allow-privileged")
}

func (f *serveFlags) admission(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringSliceVar(&c.Controllers, "controllers", nil, "controllers to run in the server, comma-separated: NAME enables one, -NAME disables one, * enables all except "+strings.Join(controlplane.OptionalControllers(), ", ")+", -* disables all that are not named (default *); while a kube-controller-manager runs, only the named ones run; available: "+strings.Join(controlplane.Controllers(), ", "))
	for _, s := range c.Signing.Signers() {
		of, instead := "all Kubernetes signers (default: the server's own CA)", ""
		if s.Signer != "" {
			of, instead = s.Signer, ", instead of --cluster-signing-cert-file"
		}
		flags.StringVar(&s.Files.CertFile, s.CertFlag, "", "CA that signs certificate signing requests for "+of+instead)
		flags.StringVar(&s.Files.KeyFile, s.KeyFlag, "", "key of --"+s.CertFlag)
	}
	flags.DurationVar(&c.ClusterSigningDuration, "cluster-signing-duration", controlplane.DefaultClusterSigningDuration, "maximum lifetime of these certificates; requests may specify a shorter one")
	flags.DurationVar(&c.LegacyTokenCleanUpPeriod, "legacy-service-account-token-clean-up-period", controlplane.DefaultLegacyTokenCleanUpPeriod, "how long the generated token of a secret may be unused before it becomes invalid, and after that before it is deleted")
	flags.StringSliceVar(&c.EnableAdmissionPlugins, "enable-admission-plugins", nil, "additional admission plugins, comma-separated; their order does not matter: "+strings.Join(controlplane.AdmissionPlugins(), ", "))
	flags.StringVar(&c.AdmissionControlConfigFile, "admission-control-config-file", "", "AdmissionConfiguration of apiserver.config.k8s.io/v1: configuration of admission plugins, or the names of files with it")
	flags.Var(&optionalSeconds{&c.DefaultNotReadyTolerationSeconds}, "default-not-ready-toleration-seconds", "default toleration of pods for nodes that are not ready, in seconds")
	flags.Var(&optionalSeconds{&c.DefaultUnreachableTolerationSeconds}, "default-unreachable-toleration-seconds", "default toleration of pods for unreachable nodes, in seconds")
	flags.StringSliceVar(&c.DisableAdmissionPlugins, "disable-admission-plugins", nil, "admission plugins to disable, comma-separated")
}

func (f *serveFlags) oidc(flags *pflag.FlagSet) {
	c, o := &f.config, &f.config.OIDC
	flags.StringVar(&c.AuthenticationConfigFile, "authentication-config", "", "AuthenticationConfiguration of apiserver.config.k8s.io/v1: OpenID Connect providers instead of the oidc flags, and the paths for anonymous requests; reloaded when the file changes")
	flags.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "https URL of the OpenID Connect provider that issues tokens")
	flags.StringVar(&o.ClientID, "oidc-client-id", "", "audience of the provider's tokens for this server")
	flags.StringVar(&o.CAFile, "oidc-ca-file", "", "CA certificates for the provider's serving certificate (default: the operating system's)")
	flags.StringVar(&o.UsernameClaim, "oidc-username-claim", "", "claim with the user name (default sub)")
	flags.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "prefix of user names, - for no prefix (default: the issuer and #, except for the claim email)")
	flags.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim with the group or groups (default: no groups)")
	flags.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups")
	flags.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", nil, "signature algorithms of the provider's tokens, comma-separated: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512 (default RS256)")
	flags.StringToStringVar(&o.RequiredClaims, "oidc-required-claim", nil, "required claim, as NAME=VALUE; may be repeated")
}

func (f *serveFlags) requests(flags *pflag.FlagSet) {
	c := &f.config
	flags.Var(&zeroIsNoLimit{&c.MaxRequestsInFlight, controlplane.DefaultMaxRequestsInFlight}, "max-requests-inflight", "maximum number of concurrent read requests; 0 disables the limit, and both limits 0 disable flow control")
	flags.Var(&zeroIsNoLimit{&c.MaxMutatingInFlight, controlplane.DefaultMaxMutatingInFlight}, "max-mutating-requests-inflight", "maximum number of concurrent mutating requests; 0 disables the limit, and both limits 0 disable flow control")
	flags.Var(opposite(&c.WithoutPriorityAndFairness), "enable-priority-and-fairness", "distribute the sum of both limits among the flows of FlowSchemas and PriorityLevelConfigurations, instead of rejecting requests above the limits")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", controlplane.DefaultRequestTimeout, "timeout of requests other than watches")
	flags.Var(&seconds{&c.MinRequestTimeout, controlplane.DefaultMinRequestTimeout}, "min-request-timeout", "minimum duration of watches, in seconds; each watch ends after a random duration of one to two times this value")
	flags.Float64Var(&c.GoAwayChance, "goaway-chance", 0, "share of HTTP/2 requests after which the client is asked to open a new connection, at most 0.02")
	flags.StringSliceVar(&c.CORSAllowedOrigins, "cors-allowed-origins", nil, "regular expressions of the origins that may use the API from browsers (CORS), comma-separated, such as ^https://www\\.example\\.com$")
	asBool(flags, "enable-priority-and-fairness")
}

func (f *serveFlags) audit(flags *pflag.FlagSet) {
	f.config.Audit = audit.NewOptions()
	o := &f.config.Audit
	flags.StringVar(&o.PolicyFile, "audit-policy-file", "", "Policy of audit.k8s.io/v1: which parts of which requests are recorded (default: auditing is disabled)")
	log := &o.Log
	flags.StringVar(&log.Path, "audit-log-path", "", "file for audit events, - for the standard output (default: no file)")
	flags.StringVar(&log.Format, "audit-log-format", log.Format, "json, or legacy: one line of text with some fields of the event")
	flags.IntVar(&log.MaxSize, "audit-log-maxsize", log.MaxSize, "size at which the file is rotated, in MiB; 0 disables rotation by size")
	flags.IntVar(&log.MaxBackups, "audit-log-maxbackup", log.MaxBackups, "maximum number of rotated files; 0 disables the limit")
	flags.IntVar(&log.MaxAge, "audit-log-maxage", log.MaxAge, "maximum age of rotated files, in days; 0 disables the limit")
	flags.BoolVar(&log.Compress, "audit-log-compress", false, "compress rotated files with gzip")
	auditBackend(flags, "audit-log", &log.BackendOptions)
	webhook := &o.Webhook
	flags.StringVar(&webhook.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a webhook that receives audit events (default: no webhook)")
	flags.DurationVar(&webhook.InitialBackoff, "audit-webhook-initial-backoff", webhook.InitialBackoff, "delay before the first retry")
	flags.DurationVar(&webhook.InitialBackoff, "audit-webhook-batch-initial-backoff", webhook.InitialBackoff, "deprecated name of --audit-webhook-initial-backoff")
	flags.Lookup("audit-webhook-batch-initial-backoff").Hidden = true
	auditBackend(flags, "audit-webhook", &webhook.BackendOptions)
}

// auditBackend adds the flags that the log and the webhook both have.
func auditBackend(flags *pflag.FlagSet, prefix string, o *audit.BackendOptions) {
	flags.StringVar(&o.Mode, prefix+"-mode", o.Mode, "batch: events are buffered, and dropped if the buffer is full; blocking: each request waits for its events; blocking-strict: requests that cannot be recorded on arrival are also rejected")
	flags.StringVar(&o.Version, prefix+"-version", o.Version, "version of the events; audit.k8s.io/v1 is the only one")
	batch := &o.Batch
	flags.IntVar(&batch.BufferSize, prefix+"-batch-buffer-size", batch.BufferSize, "maximum number of buffered events")
	flags.IntVar(&batch.MaxSize, prefix+"-batch-max-size", batch.MaxSize, "maximum number of events in a batch")
	flags.DurationVar(&batch.MaxWait, prefix+"-batch-max-wait", batch.MaxWait, "maximum time to wait for a full batch")
	flags.BoolVar(&batch.ThrottleEnable, prefix+"-batch-throttle-enable", batch.ThrottleEnable, "limit the rate of batches")
	flags.Float32Var(&batch.ThrottleQPS, prefix+"-batch-throttle-qps", batch.ThrottleQPS, "maximum number of batches per second")
	flags.IntVar(&batch.ThrottleBurst, prefix+"-batch-throttle-burst", batch.ThrottleBurst, "maximum burst of batches")
	truncate := &o.Truncate
	flags.BoolVar(&truncate.Enabled, prefix+"-truncate-enabled", false, "remove the bodies of events that are too large, and drop events that are still too large")
	flags.Int64Var(&truncate.MaxEventSize, prefix+"-truncate-max-event-size", truncate.MaxEventSize, "maximum size of an event, in bytes")
	flags.Int64Var(&truncate.MaxBatchSize, prefix+"-truncate-max-batch-size", truncate.MaxBatchSize, "maximum size of a batch, in bytes")
}

func (f *serveFlags) stopping(flags *pflag.FlagSet) {
	c := &f.config
	flags.DurationVar(&c.ShutdownDelay, "shutdown-delay-duration", 0, "how long to continue serving after a stop signal, while /readyz fails")
	flags.BoolVar(&c.ShutdownRetryAfter, "shutdown-send-retry-after", false, "during shutdown, respond to new requests with 429 and Retry-After instead of closing the port")
}

func (f *serveFlags) features(flags *pflag.FlagSet) {
	flags.Var(opposite(&f.config.WithoutProfiling), "profiling", "serve /debug/pprof")
	flags.Var(&runtimeConfig{&f.config.RuntimeConfig}, "runtime-config", "built-in APIs to enable or disable, as api/all, api/ga, api/beta, api/alpha, GROUP/VERSION or GROUP/VERSION/RESOURCE, each with =true|false, comma-separated; may be repeated")
	flags.Var(&gates{&f.config.FeatureGates}, "feature-gates", "feature gates as NAME=true|false, comma-separated; may be repeated. \"mainstay features\" lists them")
	asBool(flags, "profiling")
}

func (f *serveFlags) aggregation(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.ProxyClientCertFile, "proxy-client-cert-file", "", "client certificate of this server as a front proxy, for aggregated servers (default: issued by the server's own front proxy CA)")
	flags.StringVar(&c.ProxyClientKeyFile, "proxy-client-key-file", "", "key of --proxy-client-cert-file")
	flags.Var(opposite(&c.PassRedirects), "aggregator-reject-forwarding-redirect", "reject redirects of aggregated servers")
	asBool(flags, "aggregator-reject-forwarding-redirect")
	flags.StringVar(&c.PeerCAFile, "peer-ca-file", "", "CA certificates of the other servers with the same etcd: requests for resources that this server does not serve are forwarded to a server that does, with the certificate of --proxy-client-cert-file (default: not forwarded)")
	flags.StringVar(&c.PeerAdvertiseIP, "peer-advertise-ip", "", "address under which other servers reach this server to forward requests (default: --advertise-address)")
	flags.StringVar(&c.PeerAdvertisePort, "peer-advertise-port", "", "port for forwarded requests (default: --secure-port)")
	flags.BoolVar(&c.AggregatorRouting, "enable-aggregator-routing", false, "connect to the endpoints of aggregated servers' and webhooks' services instead of their cluster IPs")
}

func (f *serveFlags) kubelets(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.KubeletClientCertFile, "kubelet-client-certificate", "", "client certificate for kubelets (default: no certificate)")
	flags.StringVar(&c.KubeletClientKeyFile, "kubelet-client-key", "", "key of --kubelet-client-certificate")
	flags.StringVar(&c.KubeletCAFile, "kubelet-certificate-authority", "", "CA certificates for kubelets' serving certificates (default: not verified)")
	flags.StringSliceVar(&c.KubeletPreferredAddressTypes, "kubelet-preferred-address-types", kubelet.DefaultAddressTypes(), "types of node addresses, in order of preference")
	flags.IntVar(&c.KubeletPort, "kubelet-port", kubelet.DefaultPort, "port of kubelets on nodes that do not report it")
	flags.DurationVar(&c.KubeletTimeout, "kubelet-timeout", kubelet.DefaultTimeout, "timeout for connecting to a kubelet")
}

func (f *serveFlags) egress(flags *pflag.FlagSet) {
	flags.StringVar(&f.config.EgressSelectorConfigFile, "egress-selector-config-file", "", "EgressSelectorConfiguration of apiserver.k8s.io/v1beta1: proxies for connections to nodes, pods and services (cluster), to webhooks with URLs (controlplane) and to etcd (default: direct connections)")
}

func (f *serveFlags) logs(flags *pflag.FlagSet) {
	flags.StringVar(&f.log.Format, "logging-format", telemetry.FormatText, "text or json")
	flags.IntVarP(&f.log.Verbosity, "v", "v", 0, "log verbosity: 3 logs every request; 6 and above is for developers")
	flags.BoolVar(&f.version, "version", false, "print the version and exit")
}

// asBool permits a flag without a value.
func asBool(flags *pflag.FlagSet, name string) { flags.Lookup(name).NoOptDefVal = "true" }

// tableRows splits a table of tab-separated values; lines with # are comments.
func tableRows(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}
