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
	flags.StringVar(&c.DataDir, "data-dir", "./"+host.DefaultDataDir, "folder for all that the server keeps: the store, keys, certificates, admin.kubeconfig")
	flags.BoolVar(&c.NewStore, "new-store", false, "make an empty store where --data-dir has keys but no store, or holds files that are not this server's; what is there is left alone")
	flags.BoolVar(&c.AcceptLostWrites, "accept-lost-writes", false, "start on a store whose newest writes are missing, and go on at a resourceVersion greater than any that clients have seen, so that they list anew")
	flags.DurationVar(&c.HistoryRetention, "history-retention", 5*time.Minute, "how long replaced and deleted objects can still be watched from in the store in --data-dir; less than 0 keeps them for ever")
	flags.Var(&bytesOrNoLimit{&c.StorageQuota, "0"}, "storage-quota", "size of the store in --data-dir, as 512Mi or 2Gi, from which it accepts deletions only; 0 is no limit")
	flags.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "URLs of an etcd cluster, comma-separated, that keeps the objects instead of a store in --data-dir")
	flags.StringSliceVar(&c.EtcdServersOverrides, "etcd-servers-overrides", nil, "etcd clusters that keep single built-in resources, comma-separated, each as group/resource#URL;URL: /events#https://10.0.0.9:2379; services, ipaddresses and resourcequotas cannot be kept apart")
	flags.StringVar(&c.EtcdTLS.CAFile, "etcd-cafile", "", "authorities that sign etcd's certificates (default: the operating system's)")
	flags.StringVar(&c.EtcdTLS.CertFile, "etcd-certfile", "", "certificate by which etcd knows this server")
	flags.StringVar(&c.EtcdTLS.KeyFile, "etcd-keyfile", "", "key of --etcd-certfile")
	flags.Var(&zeroIsNever{&c.EtcdCompactionInterval, host.DefaultEtcdCompactionInterval}, "etcd-compaction-interval", "how often history older than that is forgotten in etcd; 0 leaves that to others")
	flags.Var(&zeroIsNever{&c.ObjectCountInterval, controlplane.DefaultObjectCountInterval}, "etcd-count-metric-poll-period", "for how long the metrics of how many objects are stored, in either store, stay as they are; 0 leaves them out")
	flags.Var(&zeroIsNever{&c.EtcdSizeInterval, host.DefaultEtcdSizeInterval}, "etcd-db-metric-poll-interval", "for how long the metric apiserver_storage_size_bytes, the size of etcd's database, stays as it is; 0 leaves it out")
	flags.Var(&zeroSecondsIsNever{seconds{&c.EtcdLeaseReuse, host.DefaultEtcdLeaseReuse}}, "lease-reuse-duration-seconds", "for how long objects that expire share a lease of etcd, by which much later they go; 0: each has its own")
	flags.DurationVar(&c.EtcdHealthTimeout, "etcd-healthcheck-timeout", controlplane.DefaultStorageCheckTimeout, "time that the check \"etcd\" of the store may take")
	flags.DurationVar(&c.EtcdReadyTimeout, "etcd-readycheck-timeout", controlplane.DefaultStorageCheckTimeout, "time that the check \"etcd-readiness\" of the store may take")
	flags.StringVar(&c.EtcdPrefix, "etcd-prefix", host.DefaultEtcdPrefix, "prefix of all keys in the store")
	flags.StringVar(&c.EncryptionConfigFile, "encryption-provider-config", "", "EncryptionConfiguration of apiserver.config.k8s.io/v1: which resources are encrypted in the store, and how")
	flags.BoolVar(&c.EncryptionConfigReload, "encryption-provider-config-automatic-reload", false, "follow --encryption-provider-config when it changes")
	flags.Var(&only{value: "application/vnd.kubernetes.protobuf"}, "storage-media-type", "encoding of built-in kinds in the store; no other one is supported yet")
	flags.Var(opposite(&c.WithoutWatchCache), "watch-cache", "answer reads and watches from memory")
	flags.Var(&bytesOrNoLimit{&c.MemoryLimit, ""}, "memory-limit", "memory that the server is to use, as 512Mi or 2Gi: near it, large requests wait or are answered with 429, and caches give back; 0 is any amount (default GOMEMLIMIT, or what the control group or the machine has)")
	flags.Var(&bytesOrNoLimit{&c.CacheMemoryLimit, "256Mi"}, "cache-memory-limit", "memory for objects as JSON or protobuf that are kept to be sent again, as 512Mi or 2Gi; 0 is any amount")
	flags.DurationVar(&c.EventTTL, "event-ttl", controlplane.DefaultEventTTL, "how long events are kept")
	asBool(flags, "watch-cache")
}

func (f *serveFlags) serving(flags *pflag.FlagSet) {
	c := &f.config
	flags.Var(&address{&c.BindAddress, ""}, "bind-address", "address to listen on; 0.0.0.0 and :: are all addresses of this machine (default 127.0.0.1, or all addresses if --advertise-address is set to one that is not loopback)")
	flags.Var(&port{&c.SecurePort, host.DefaultSecurePort}, "secure-port", "port to listen on; 0 takes a free one, which is printed and stands in admin.kubeconfig")
	flags.Var(&address{&c.AdvertiseAddress, ""}, "advertise-address", "address at which other machines reach the server; the serving certificate is good for it, and the service default/kubernetes leads to it")
	flags.StringVar(&c.EndpointReconciler, "endpoint-reconciler-type", controlplane.EndpointsByLease, "who publishes the endpoints of the service default/kubernetes: lease, this server and all that share its etcd; none, another program")
	flags.Var(&prefixes{to: &c.ServiceClusterIPRange}, "service-cluster-ip-range", "one or two CIDRs for the addresses of services (default "+controlplane.DefaultServiceClusterIPRange+")")
	flags.Var(&c.ServiceNodePortRange, "service-node-port-range", "ports of nodes for services, the first and the last one, like 30000-32767 (default "+controlplane.DefaultServiceNodePortRange+")")
	flags.BoolVar(&c.PermitPortSharing, "permit-port-sharing", false, "let several processes listen on the port (SO_REUSEPORT)")
	flags.BoolVar(&c.DisableHTTP2, "disable-http2-serving", false, "serve HTTP/1.1 only")
	flags.Var(&zeroIsDefault{&c.MaxStreams, host.DefaultMaxStreamsPerConnection}, "http2-max-streams-per-connection", "requests at a time that an HTTP/2 connection may carry; 0 is the default")
	flags.StringVar(&c.HTTP2Server, "http2-server", host.HTTP2Mainstay, "implementation of HTTP/2: mainstay, or net/http, slower, to find out whether a fault is ours")
}

func (f *serveFlags) tls(flags *pflag.FlagSet) {
	t := &f.config.TLS
	flags.StringVar(&t.CertFile, "tls-cert-file", "", "serving certificate, followed by its chain (default: one made by the server's own authority)")
	flags.StringVar(&t.KeyFile, "tls-private-key-file", "", "key of --tls-cert-file")
	flags.Var(&sniCertificates{&t.SNI}, "tls-sni-cert-key", "another serving certificate as CERT,KEY or CERT,KEY:NAME,...; may be repeated")
	flags.Var(&tlsVersion{to: &t.MinVersion}, "tls-min-version", "oldest version of TLS: "+strings.Join(tlsVersionNames(), ", ")+" (default VersionTLS12)")
	flags.Var(&curves{&t.CurvePreferences}, "tls-curve-preferences", "key exchanges that are possible, as numbers of crypto/tls.CurveID, comma-separated; Go chooses among them (default: Go's)")
	flags.Var(&cipherSuites{to: &t.CipherSuites}, "tls-cipher-suites", "cipher suites of TLS 1.2 by their names, comma-separated (default: Go's)")
	flags.StringSliceVar(&f.config.HSTSDirectives, "strict-transport-security-directives", nil, "HSTS directives to send, comma-separated: max-age=SECONDS, includeSubDomains, preload")
}

func (f *serveFlags) auth(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.ClientCAFile, "client-ca-file", "", "authorities whose client certificates are users (common name) of groups (organizations), besides the server's own")
	flags.StringVar(&c.RequestHeader.ClientCAFile, "requestheader-client-ca-file", "", "authorities of front proxies, which are believed whom they name in headers (default: the server's own front proxy authority)")
	flags.StringSliceVar(&c.RequestHeader.AllowedNames, "requestheader-allowed-names", nil, "common names that certificates of front proxies may have, comma-separated (default: any)")
	flags.StringSliceVar(&c.RequestHeader.UsernameHeaders, "requestheader-username-headers", nil, "headers that may hold the name of a front proxy's user, like X-Remote-User")
	flags.StringSliceVar(&c.RequestHeader.UIDHeaders, "requestheader-uid-headers", nil, "headers that may hold the UID of a front proxy's user, like X-Remote-Uid")
	flags.StringSliceVar(&c.RequestHeader.GroupHeaders, "requestheader-group-headers", nil, "headers that hold groups of a front proxy's user, like X-Remote-Group")
	flags.StringSliceVar(&c.RequestHeader.ExtraHeadersPrefix, "requestheader-extra-headers-prefix", nil, "beginnings of headers that hold more of a front proxy's user, like X-Remote-Extra-")
	flags.Var(opposite(&c.ClosedToPublic), "anonymous-auth", "take requests without credentials for system:anonymous instead of refusing them")
	flags.StringArrayVar(&c.ServiceAccountIssuers, "service-account-issuer", nil, "issuer of service account tokens, which other programs find by it if it is an https URL; may be repeated: the first one issues tokens, all are taken (default https://kubernetes.default.svc.cluster.local)")
	flags.StringVar(&c.ServiceAccountSigningKeyFile, "service-account-signing-key-file", "", "private RSA or ECDSA key that signs service account tokens (default: the data directory's own)")
	flags.StringArrayVar(&c.ServiceAccountKeyFiles, "service-account-key-file", nil, "RSA or ECDSA keys that verify service account tokens, besides the one that signs them; may be repeated")
	flags.StringVar(&c.ServiceAccountSigningEndpoint, "service-account-signing-endpoint", "", "path of the socket of a program that signs service account tokens and has the keys that verify them, instead of key files (ExternalJWTSigner of k8s.io/externaljwt)")
	flags.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", "", "https URL of the keys of service account tokens in OpenID discovery (default: on this server)")
	flags.StringSliceVar(&c.APIAudiences, "api-audiences", nil, "audiences of tokens for this server, comma-separated (default: the issuers of service account tokens)")
	flags.DurationVar(&c.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0, "longest time that a service account token may be asked for, from 1h on; 0 is any time")
	flags.Var(opposite(&c.WithoutTokenExtension), "service-account-extend-token-expiration", "let the tokens that pods are given last for a year, and count the use of those that should have been renewed")
	flags.Var(opposite(&c.WithoutTokenLookup), "service-account-lookup", "take tokens of secrets only while the secret and the service account are there")
	asBool(flags, "service-account-extend-token-expiration")
	asBool(flags, "service-account-lookup")
	flags.StringVar(&c.TokenAuthFile, "token-auth-file", "", "bearer tokens, read at the start: lines of TOKEN,USER,UID or TOKEN,USER,UID,\"GROUP,...\"")
	flags.BoolVar(&c.BootstrapTokens, "enable-bootstrap-token-auth", false, "take the tokens of secrets of the type bootstrap.kubernetes.io/token in kube-system")
	flags.StringVar(&c.TokenWebhookConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that is asked, by TokenReviews, whose a bearer token is that nobody else knows")
	flags.StringVar(&c.TokenWebhookVersion, "authentication-token-webhook-version", host.DefaultTokenWebhookVersion, "version of these TokenReviews: v1 or v1beta1")
	flags.Var(&zeroIsNever{&c.TokenWebhookCacheTTL, host.DefaultTokenWebhookCacheTTL}, "authentication-token-webhook-cache-ttl", "how long its answers are remembered; 0 is not at all")
	f.oidc(flags)
	flags.StringSliceVar(&c.AuthorizationModes, "authorization-mode", nil, "who decides, in this order: "+strings.Join(controlplane.AuthorizationModes(), ", ")+" (default Node,RBAC)")
	a := &c.AuthorizationFiles
	flags.StringVar(&a.ConfigFile, "authorization-config", "", "AuthorizationConfiguration of apiserver.config.k8s.io/v1: who decides, with webhooks and their conditions, instead of --authorization-mode and the webhook flags; followed when it changes")
	flags.StringVar(&a.WebhookConfigFile, "authorization-webhook-config-file", "", "kubeconfig of the webhook of the mode Webhook, which is asked by SubjectAccessReviews")
	flags.StringVar(&a.WebhookVersion, "authorization-webhook-version", host.DefaultAuthorizationWebhookVersion, "version of these SubjectAccessReviews: v1 or v1beta1")
	flags.Var(&zeroIsNever{&a.WebhookAuthorizedTTL, host.DefaultAuthorizedTTL}, "authorization-webhook-cache-authorized-ttl", "how long the webhook's answers that allow are remembered; 0 is not at all")
	flags.Var(&zeroIsNever{&a.WebhookUnauthorizedTTL, host.DefaultUnauthorizedTTL}, "authorization-webhook-cache-unauthorized-ttl", "how long its other answers are remembered; 0 is not at all")
	flags.BoolVar(&c.ListVisible, "list-visible", false, "answer lists and watches over all namespaces, by users whom RBAC allows them in some, with the objects of those instead of 403; watches follow when the rights change")
	flags.StringVar(&a.PolicyFile, "authorization-policy-file", "", "policies of the mode ABAC, one a line, read at the start")
	flags.Var(opposite(&c.DenyPrivileged), "allow-privileged", "let pods have privileged containers; unlike in kube-apiserver, this is the default")
	asBool(flags, "anonymous-auth")
	asBool(flags, "allow-privileged")
}

func (f *serveFlags) admission(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringSliceVar(&c.Controllers, "controllers", nil, "controllers that run in the server, comma-separated: NAME, -NAME for one that does not, * for all but "+controlplane.OptionalController+", -* for none but those named (default *); while a kube-controller-manager runs, those alone that are named; there are "+strings.Join(controlplane.Controllers(), ", "))
	for _, s := range c.Signing.Signers() {
		of, instead := "all signers of Kubernetes' own (default: the server's own authority)", ""
		if s.Signer != "" {
			of, instead = s.Signer, ", instead of --cluster-signing-cert-file"
		}
		flags.StringVar(&s.Files.CertFile, s.CertFlag, "", "authority that signs certificate signing requests for "+of+instead)
		flags.StringVar(&s.Files.KeyFile, s.KeyFlag, "", "key of --"+s.CertFlag)
	}
	flags.DurationVar(&c.ClusterSigningDuration, "cluster-signing-duration", controlplane.DefaultClusterSigningDuration, "how long certificates are good that are signed so, at most; requests may ask for less")
	flags.DurationVar(&c.LegacyTokenCleanUpPeriod, "legacy-service-account-token-clean-up-period", controlplane.DefaultLegacyTokenCleanUpPeriod, "how long a service account token that was generated in a secret may go unused until it becomes invalid, and again until it is deleted")
	flags.StringSliceVar(&c.EnableAdmissionPlugins, "enable-admission-plugins", nil, "admission plugins that take part besides those that do by default, comma-separated; their order does not matter: "+strings.Join(controlplane.AdmissionPlugins(), ", "))
	flags.StringVar(&c.AdmissionControlConfigFile, "admission-control-config-file", "", "AdmissionConfiguration of apiserver.config.k8s.io/v1: the configuration of admission plugins, or the files that have it")
	flags.Var(&optionalSeconds{&c.DefaultNotReadyTolerationSeconds}, "default-not-ready-toleration-seconds", "how long pods that do not say stay on a node that is not ready, in seconds")
	flags.Var(&optionalSeconds{&c.DefaultUnreachableTolerationSeconds}, "default-unreachable-toleration-seconds", "how long pods that do not say stay on a node that cannot be reached, in seconds")
	flags.StringSliceVar(&c.DisableAdmissionPlugins, "disable-admission-plugins", nil, "admission plugins that do not take part, comma-separated")
}

func (f *serveFlags) oidc(flags *pflag.FlagSet) {
	c, o := &f.config, &f.config.OIDC
	flags.StringVar(&c.AuthenticationConfigFile, "authentication-config", "", "AuthenticationConfiguration of apiserver.config.k8s.io/v1: OpenID Connect providers instead of the oidc flags, and who may be anonymous; followed when it changes")
	flags.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "https URL of an OpenID Connect provider whose tokens are taken")
	flags.StringVar(&o.ClientID, "oidc-client-id", "", "audience of the provider's tokens for this server")
	flags.StringVar(&o.CAFile, "oidc-ca-file", "", "authorities that sign the provider's certificate (default: the operating system's)")
	flags.StringVar(&o.UsernameClaim, "oidc-username-claim", "", "claim that is the user (default sub)")
	flags.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "prefix of users, - for none (default: the issuer and #, but for the claim email)")
	flags.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim that is the group or the groups (default: none)")
	flags.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups")
	flags.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", nil, "algorithms of the provider's tokens, comma-separated: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512 (default RS256)")
	flags.StringToStringVar(&o.RequiredClaims, "oidc-required-claim", nil, "claim that tokens must have, as NAME=VALUE; may be repeated")
}

func (f *serveFlags) requests(flags *pflag.FlagSet) {
	c := &f.config
	flags.Var(&zeroIsNoLimit{&c.MaxRequestsInFlight, controlplane.DefaultMaxRequestsInFlight}, "max-requests-inflight", "requests at a time that only read; 0 is any number, of flow control none")
	flags.Var(&zeroIsNoLimit{&c.MaxMutatingInFlight, controlplane.DefaultMaxMutatingInFlight}, "max-mutating-requests-inflight", "requests at a time that change something; 0 is any number, of flow control none")
	flags.Var(opposite(&c.WithoutPriorityAndFairness), "enable-priority-and-fairness", "share the sum of both out among flows of requests, as FlowSchemas and PriorityLevelConfigurations say, instead of refusing what exceeds them")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", controlplane.DefaultRequestTimeout, "time that a request other than a watch may take")
	flags.Var(&seconds{&c.MinRequestTimeout, controlplane.DefaultMinRequestTimeout}, "min-request-timeout", "seconds that a watch lasts at least; each ends between once and twice that")
	flags.Float64Var(&c.GoAwayChance, "goaway-chance", 0, "share of HTTP/2 requests whose clients are asked to connect anew, at most 0.02")
	flags.StringSliceVar(&c.CORSAllowedOrigins, "cors-allowed-origins", nil, "regular expressions of the origins whose pages may use the API, comma-separated, like ^https://www\\.example\\.com$")
	asBool(flags, "enable-priority-and-fairness")
}

func (f *serveFlags) audit(flags *pflag.FlagSet) {
	f.config.Audit = audit.NewOptions()
	o := &f.config.Audit
	flags.StringVar(&o.PolicyFile, "audit-policy-file", "", "Policy of audit.k8s.io/v1: what is recorded of which requests (default: nothing is recorded)")
	log := &o.Log
	flags.StringVar(&log.Path, "audit-log-path", "", "file that events are written to, - for the standard output (default: none)")
	flags.StringVar(&log.Format, "audit-log-format", log.Format, "json, or legacy, a line of text with a part of the event")
	flags.IntVar(&log.MaxSize, "audit-log-maxsize", log.MaxSize, "MiB that the file may have before another one is begun; 0 is any size")
	flags.IntVar(&log.MaxBackups, "audit-log-maxbackup", log.MaxBackups, "older files that are kept; 0 is any number")
	flags.IntVar(&log.MaxAge, "audit-log-maxage", log.MaxAge, "days that older files are kept; 0 is for ever")
	flags.BoolVar(&log.Compress, "audit-log-compress", false, "compress older files with gzip")
	auditBackend(flags, "audit-log", &log.BackendOptions)
	webhook := &o.Webhook
	flags.StringVar(&webhook.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a webhook that events are sent to (default: none)")
	flags.DurationVar(&webhook.InitialBackoff, "audit-webhook-initial-backoff", webhook.InitialBackoff, "how long to wait before events are sent for the second time")
	flags.DurationVar(&webhook.InitialBackoff, "audit-webhook-batch-initial-backoff", webhook.InitialBackoff, "old name of --audit-webhook-initial-backoff")
	flags.Lookup("audit-webhook-batch-initial-backoff").Hidden = true
	auditBackend(flags, "audit-webhook", &webhook.BackendOptions)
}

// auditBackend adds the flags that the log and the webhook both have.
func auditBackend(flags *pflag.FlagSet, prefix string, o *audit.BackendOptions) {
	flags.StringVar(&o.Mode, prefix+"-mode", o.Mode, "batch: events are gathered, and lost where there is no more room; blocking: requests wait for them; blocking-strict: requests whose arrival cannot be recorded are refused")
	flags.StringVar(&o.Version, prefix+"-version", o.Version, "version of the events; there is one")
	batch := &o.Batch
	flags.IntVar(&batch.BufferSize, prefix+"-batch-buffer-size", batch.BufferSize, "events that may wait")
	flags.IntVar(&batch.MaxSize, prefix+"-batch-max-size", batch.MaxSize, "events of a batch")
	flags.DurationVar(&batch.MaxWait, prefix+"-batch-max-wait", batch.MaxWait, "how long a batch waits for more events")
	flags.BoolVar(&batch.ThrottleEnable, prefix+"-batch-throttle-enable", batch.ThrottleEnable, "limit how often batches are sent")
	flags.Float32Var(&batch.ThrottleQPS, prefix+"-batch-throttle-qps", batch.ThrottleQPS, "batches in a second")
	flags.IntVar(&batch.ThrottleBurst, prefix+"-batch-throttle-burst", batch.ThrottleBurst, "batches at once after a pause")
	truncate := &o.Truncate
	flags.BoolVar(&truncate.Enabled, prefix+"-truncate-enabled", false, "leave bodies out of events that are too large, and such events out if that is not enough")
	flags.Int64Var(&truncate.MaxEventSize, prefix+"-truncate-max-event-size", truncate.MaxEventSize, "bytes that an event may have")
	flags.Int64Var(&truncate.MaxBatchSize, prefix+"-truncate-max-batch-size", truncate.MaxBatchSize, "bytes that a batch may have")
}

func (f *serveFlags) stopping(flags *pflag.FlagSet) {
	c := &f.config
	flags.DurationVar(&c.ShutdownDelay, "shutdown-delay-duration", 0, "how long to go on serving, while /readyz fails, after a signal to stop")
	flags.BoolVar(&c.ShutdownRetryAfter, "shutdown-send-retry-after", false, "while stopping, answer new requests with 429 and Retry-After instead of closing the port")
}

func (f *serveFlags) features(flags *pflag.FlagSet) {
	flags.Var(opposite(&f.config.WithoutProfiling), "profiling", "serve /debug/pprof")
	flags.Var(&runtimeConfig{&f.config.RuntimeConfig}, "runtime-config", "built-in APIs to serve or not, as api/all, api/ga, api/beta, api/alpha, GROUP/VERSION or GROUP/VERSION/RESOURCE, each with =true|false, comma-separated; may be repeated")
	flags.Var(&gates{&f.config.FeatureGates}, "feature-gates", "feature gates as NAME=true|false, comma-separated; may be repeated. \"mainstay features\" lists them")
	asBool(flags, "profiling")
}

func (f *serveFlags) aggregation(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.ProxyClientCertFile, "proxy-client-cert-file", "", "certificate by which aggregated servers know this one as a front proxy (default: one made by the server's own front proxy authority)")
	flags.StringVar(&c.ProxyClientKeyFile, "proxy-client-key-file", "", "key of --proxy-client-cert-file")
	flags.Var(opposite(&c.PassRedirects), "aggregator-reject-forwarding-redirect", "refuse answers of aggregated servers that send the client elsewhere")
	asBool(flags, "aggregator-reject-forwarding-redirect")
	flags.StringVar(&c.PeerCAFile, "peer-ca-file", "", "CA certificates of the other servers over the same etcd: requests for resources that this server does not have are sent on to one that has them, by the certificate of --proxy-client-cert-file (default: they are not)")
	flags.StringVar(&c.PeerAdvertiseIP, "peer-advertise-ip", "", "address at which other servers reach this one for that (default: that of --advertise-address)")
	flags.StringVar(&c.PeerAdvertisePort, "peer-advertise-port", "", "port for that (default: --secure-port)")
	flags.BoolVar(&c.AggregatorRouting, "enable-aggregator-routing", false, "reach services of aggregated servers and webhooks at their endpoints instead of their cluster IPs")
}

func (f *serveFlags) kubelets(flags *pflag.FlagSet) {
	c := &f.config
	flags.StringVar(&c.KubeletClientCertFile, "kubelet-client-certificate", "", "client certificate for kubelets (default: none)")
	flags.StringVar(&c.KubeletClientKeyFile, "kubelet-client-key", "", "key of --kubelet-client-certificate")
	flags.StringVar(&c.KubeletCAFile, "kubelet-certificate-authority", "", "CA certificates of kubelets (default: theirs are not verified)")
	flags.StringSliceVar(&c.KubeletPreferredAddressTypes, "kubelet-preferred-address-types", kubelet.DefaultAddressTypes(), "types of nodes' addresses, in the order in which they are looked for")
	flags.IntVar(&c.KubeletPort, "kubelet-port", kubelet.DefaultPort, "port of kubelets of nodes that do not report it")
	flags.DurationVar(&c.KubeletTimeout, "kubelet-timeout", kubelet.DefaultTimeout, "how long a connection to a kubelet may take to be established")
}

func (f *serveFlags) egress(flags *pflag.FlagSet) {
	flags.StringVar(&f.config.EgressSelectorConfigFile, "egress-selector-config-file", "", "EgressSelectorConfiguration of apiserver.k8s.io/v1beta1: the proxies through which nodes, pods and services (cluster), webhooks at URLs (controlplane) and etcd are connected to (default: none)")
}

func (f *serveFlags) logs(flags *pflag.FlagSet) {
	flags.StringVar(&f.log.Format, "logging-format", telemetry.FormatText, "text or json")
	flags.IntVarP(&f.log.Verbosity, "v", "v", 0, "verbosity of the log: 3 logs every request, 6 and more is for developers")
	flags.BoolVar(&f.version, "version", false, "print the version and leave")
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
