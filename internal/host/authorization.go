package host

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/authz/abac"
	"mainstay.dev/mainstay/internal/filters/authz/webhook"
	"mainstay.dev/mainstay/internal/flags"
	"mainstay.dev/mainstay/internal/telemetry"
)

// Defaults of AuthorizationConfig, as in kube-apiserver.
const (
	DefaultAuthorizationWebhookVersion = "v1beta1"
	DefaultAuthorizedTTL               = authz.DefaultAuthorizedTTL
	DefaultUnauthorizedTTL             = authz.DefaultUnauthorizedTTL
)

// AuthorizationConfig configures the authorizers of the host. The modes and the authorizers of a
// control plane are configured by controlplane.AuthorizationOptions.
type AuthorizationConfig struct {
	// ConfigFile is an AuthorizationConfiguration, which replaces the modes and WebhookConfigFile; "" if
	// there is none. The server reloads the file when it changes.
	ConfigFile string
	// WebhookConfigFile is the kubeconfig of the webhook for the Webhook mode.
	WebhookConfigFile string
	// WebhookVersion is the API version of the SubjectAccessReviews that the webhook receives, v1 or
	// v1beta1; "" selects v1beta1.
	WebhookVersion string
	// WebhookAuthorizedTTL and WebhookUnauthorizedTTL are the times for which positive and negative
	// decisions are cached; 0 selects 5m and 30s, and a negative value disables the cache.
	WebhookAuthorizedTTL, WebhookUnauthorizedTTL time.Duration
	// PolicyFile contains the policies for the ABAC mode.
	PolicyFile string

	// modesSet reports whether the modes of the control plane were set explicitly.
	modesSet bool
}

// AddFlags defines the flags of the config.
func (c *AuthorizationConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "authorization-config", "", "AuthorizationConfiguration of apiserver.config.k8s.io/v1: authorizers with webhooks and match conditions, instead of --authorization-mode and the webhook flags; reloaded when the file changes")
	fs.StringVar(&c.WebhookConfigFile, "authorization-webhook-config-file", "", "kubeconfig of the webhook of the mode Webhook, which receives SubjectAccessReviews")
	fs.StringVar(&c.WebhookVersion, "authorization-webhook-version", DefaultAuthorizationWebhookVersion, "version of the SubjectAccessReviews: v1 or v1beta1")
	flags.PeriodVar(fs, &c.WebhookAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", DefaultAuthorizedTTL, "how long positive decisions of the webhook are cached; 0 disables the cache")
	flags.PeriodVar(fs, &c.WebhookUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", DefaultUnauthorizedTTL, "how long negative decisions of the webhook are cached; 0 disables the cache")
	fs.StringVar(&c.PolicyFile, "authorization-policy-file", "", "policy file of the mode ABAC, one policy per line, read at startup")
}

func (c *AuthorizationConfig) setDefaults() {
	setDefault(&c.WebhookVersion, DefaultAuthorizationWebhookVersion)
	setDefault(&c.WebhookAuthorizedTTL, DefaultAuthorizedTTL)
	setDefault(&c.WebhookUnauthorizedTTL, DefaultUnauthorizedTTL)
}

func (c *AuthorizationConfig) check(modes []string) error {
	var errs []error
	problem := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.ConfigFile != "" && (c.modesSet || c.WebhookConfigFile != "") {
		problem("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")
	}
	if c.WebhookVersion != "v1" && c.WebhookVersion != "v1beta1" {
		problem("--authorization-webhook-version is %q; it must be v1 or v1beta1", c.WebhookVersion)
	}
	if c.ConfigFile != "" {
		return errors.Join(errs...)
	}
	for _, mode := range []struct{ name, flag, file string }{
		{authz.TypeABAC, "--authorization-policy-file", c.PolicyFile}, {authz.TypeWebhook, "--authorization-webhook-config-file", c.WebhookConfigFile},
	} {
		switch enabled := slices.Contains(modes, mode.name); {
		case enabled && mode.file == "":
			problem("--authorization-mode=%s needs %s", mode.name, mode.flag)
		case !enabled && mode.file != "":
			problem("cannot specify %s without --authorization-mode=%s", mode.flag, mode.name)
		}
	}
	return errors.Join(errs...)
}

// authorizationEnv is the environment of the authorizers.
type authorizationEnv struct {
	egress   *selector.Selector
	reloader *fileReloader
	metrics  *webhook.Metrics
	reloads  *telemetry.Reloads
}

// open reads the files. The server reloads ConfigFile when it changes. It reads the other files once, as
// kube-apiserver does.
func (c *AuthorizationConfig) open(env authorizationEnv) (controlplane.Authorization, error) {
	var opened controlplane.Authorization
	if c.PolicyFile != "" {
		var err error
		if opened.Policies, err = readFlagFile("--authorization-policy-file", c.PolicyFile, abac.Parse); err != nil {
			return opened, err
		}
	}
	if c.WebhookConfigFile != "" {
		client, url, err := kubeconfig.Client(c.WebhookConfigFile, env.egress.ControlPlane)
		if err != nil {
			return opened, fmt.Errorf("--authorization-webhook-config-file: %w", err)
		}
		opened.Webhook = webhook.New(webhook.Config{
			Name: "default", Metrics: env.metrics, Client: client, URL: url, Timeout: authz.MaxWebhookTimeout, Version: c.WebhookVersion,
			AllowedTTL: c.WebhookAuthorizedTTL, OtherTTL: c.WebhookUnauthorizedTTL,
		})
	}
	if c.ConfigFile == "" {
		return opened, nil
	}
	var err error
	opened.Configured, err = c.follow(env, opened.Policies != nil)
	return opened, err
}

// follow reads ConfigFile, now and whenever it changes, and returns a function that returns the
// current authorizers.
func (c *AuthorizationConfig) follow(env authorizationEnv, hasPolicies bool) (func() *[]authz.NamedAuthorizer, error) {
	var current atomic.Pointer[[]authz.NamedAuthorizer]
	var first []authz.NamedAuthorizer
	return current.Load, env.reloader.add("--authorization-config", func(contents [][]byte) (err error) {
		if first != nil {
			defer func() { env.reloads.Reloaded(err) }()
		}
		configuration, err := authz.ParseConfiguration(contents[0])
		if err != nil {
			return err
		}
		list, err := configuration.Open(env.metrics, env.egress.ControlPlane)
		if err != nil {
			return err
		}
		if first == nil {
			first = list
		}
		if err := checkAuthorizers(list, first, hasPolicies); err != nil {
			return err
		}
		current.Store(&list)
		env.reloads.Applied(contents[0])
		return nil
	}, c.ConfigFile)
}

// checkAuthorizers rejects authorizers that depend on objects of a control plane, or on another file,
// and were not configured at startup.
func checkAuthorizers(list, first []authz.NamedAuthorizer, hasPolicies bool) error {
	for _, l := range list {
		switch {
		case l.Type == authz.TypeABAC && !hasPolicies:
			return errors.New("authorizer type ABAC needs --authorization-policy-file")
		case l.Authorizer == nil && !slices.ContainsFunc(first, func(other authz.NamedAuthorizer) bool { return other.Type == l.Type }):
			return fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", l.Type)
		}
	}
	return nil
}
