package host

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/flags"
)

// Defaults of TokenWebhookConfig, as in kube-apiserver.
const (
	DefaultTokenWebhookVersion  = "v1beta1"
	DefaultTokenWebhookCacheTTL = 2 * time.Minute
)

// TokenWebhookConfig configures a webhook that authenticates bearer tokens with TokenReviews.
type TokenWebhookConfig struct {
	// ConfigFile is the kubeconfig of the webhook, read at startup; "" if there is none.
	ConfigFile string
	// Version is the version of the TokenReviews, v1 or v1beta1; "" selects v1beta1.
	Version string
	// CacheTTL is the time for which responses are cached; 0 selects 2m, and a negative value
	// disables the cache.
	CacheTTL time.Duration
}

func (c *TokenWebhookConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that authenticates bearer tokens with TokenReviews")
	fs.StringVar(&c.Version, "authentication-token-webhook-version", DefaultTokenWebhookVersion, "version of the TokenReviews: v1 or v1beta1")
	flags.PeriodVar(fs, &c.CacheTTL, "authentication-token-webhook-cache-ttl", DefaultTokenWebhookCacheTTL, "how long responses of the token webhook are cached; 0 disables the cache")
}

func (c *TokenWebhookConfig) setDefaults() {
	setDefault(&c.Version, DefaultTokenWebhookVersion)
	setDefault(&c.CacheTTL, DefaultTokenWebhookCacheTTL)
}

func (c *TokenWebhookConfig) check() error {
	if c.Version != "v1" && c.Version != "v1beta1" {
		return fmt.Errorf("--authentication-token-webhook-version is %q; it must be v1 or v1beta1", c.Version)
	}
	return nil
}

func (c *TokenWebhookConfig) open(env *tokenEnv) (authn.TokenSource, error) {
	if c.ConfigFile == "" {
		return nil, nil
	}
	client, url, err := kubeconfig.Client(c.ConfigFile, env.egress.ControlPlane)
	if err != nil {
		return nil, fmt.Errorf("--authentication-token-webhook-config-file: %w", err)
	}
	return authn.NewWebhookTokens(authn.WebhookConfig{Client: client, URL: url, Version: c.Version, CacheTTL: c.CacheTTL}), nil
}
