package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"

	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/oidc"
	"mainstay.dev/mainstay/internal/request"
)

// OIDCConfig is one OpenID Connect provider by flags. IssuerURL and ClientID are set
// where any field is.
type OIDCConfig struct {
	IssuerURL, ClientID, CAFile string
	// UsernameClaim is "sub" if empty. UsernamePrefix "-" disables the prefix; "" is the issuer and
	// "#", except for email claims.
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	SigningAlgs                   []string // empty: RS256
	RequiredClaims                map[string]string
}

func (c *OIDCConfig) isSet() bool { return !reflect.ValueOf(*c).IsZero() }

func (c *OIDCConfig) check() error {
	var errs []error
	if c.isSet() && (c.IssuerURL == "" || c.ClientID == "") {
		errs = append(errs, errors.New("--oidc-issuer-url and --oidc-client-id must be specified together when any oidc-* flags are set"))
	}
	allowed := []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512}
	for _, name := range c.SigningAlgs {
		if !slices.Contains(allowed, jose.SignatureAlgorithm(name)) {
			errs = append(errs, fmt.Errorf("--oidc-signing-algs: %q is not supported; it must be one of %q", name, allowed))
		}
	}
	return errors.Join(errs...)
}

// configuration returns the equivalent AuthenticationConfiguration. ca is the content of CAFile.
func (c *OIDCConfig) configuration(ca []byte) *oidc.Configuration {
	a := oidc.Authenticator{
		Issuer:      oidc.Issuer{URL: c.IssuerURL, Audiences: []string{c.ClientID}, CertificateAuthority: string(ca)},
		SigningAlgs: c.SigningAlgs,
	}
	if len(a.SigningAlgs) == 0 {
		a.SigningAlgs = []string{string(jose.RS256)}
	}
	name := &a.ClaimMappings.Username
	name.Claim, name.Prefix = c.UsernameClaim, new(c.UsernamePrefix)
	if name.Claim == "" {
		name.Claim = "sub"
	}
	switch {
	case c.UsernamePrefix == "-":
		*name.Prefix = ""
	case c.UsernamePrefix == "" && name.Claim != "email":
		*name.Prefix = c.IssuerURL + "#"
	}
	if c.GroupsClaim != "" {
		a.ClaimMappings.Groups = oidc.Mapping{Claim: c.GroupsClaim, Prefix: new(c.GroupsPrefix)}
	}
	for claim, value := range c.RequiredClaims {
		a.ClaimValidationRules = append(a.ClaimValidationRules, oidc.ClaimRule{Claim: claim, RequiredValue: value})
	}
	return &oidc.Configuration{JWT: []oidc.Authenticator{a}}
}

// checkAuthentication validates the authentication flags.
func (c Config) checkAuthentication() error {
	var errs []error
	if c.AuthenticationConfigFile != "" && c.OIDC.isSet() {
		errs = append(errs, errors.New("--authentication-config and the oidc-* flags are mutually exclusive"))
	}
	if c.ServiceAccountSigningEndpoint != "" && c.ServiceAccountSigningKeyFile != "" {
		errs = append(errs, errors.New("service-account-signing-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set at the same time"))
	}
	if c.ServiceAccountSigningEndpoint != "" && len(c.ServiceAccountKeyFiles) > 0 {
		errs = append(errs, errors.New("service-account-key-file and service-account-signing-endpoint are mutually exclusive and cannot be set at the same time"))
	}
	if version := c.TokenWebhookVersion; version != "v1" && version != "v1beta1" {
		errs = append(errs, fmt.Errorf("--authentication-token-webhook-version is %q; it must be v1 or v1beta1", version))
	}
	return errors.Join(append(errs, c.OIDC.check())...)
}

// tokenUsers verifies tokens with the files and flags of this host.
type tokenUsers struct {
	static    authn.StaticTokens
	providers atomic.Pointer[oidc.Authenticators] // nil without providers
	anonymous *authn.AnonymousConfig              // nil: by flag
	webhook   *authn.WebhookTokens                // nil without a webhook
}

// providerUser returns the user of a provider's token.
func (u *tokenUsers) providerUser(ctx context.Context, token string) (*request.User, error) {
	if providers := u.providers.Load(); providers != nil {
		return providers.User(ctx, token)
	}
	return nil, nil
}

// openTokenUsers reads the files of tokens, of their webhook and of providers. That of
// providers is followed when it changes; the others are read once, as by kube-apiserver.
func (h *Host) openTokenUsers() error {
	h.tokenUsers = &tokenUsers{}
	var err error
	if file := h.config.TokenAuthFile; file != "" {
		if h.tokenUsers.static, err = readKeyFile("--token-auth-file", file, authn.ParseStaticTokens); err != nil {
			return err
		}
	}
	if file := h.config.TokenWebhookConfigFile; file != "" {
		client, url, err := kubeconfig.Client(file, h.egress.ControlPlane)
		if err != nil {
			return fmt.Errorf("--authentication-token-webhook-config-file: %w", err)
		}
		h.tokenUsers.webhook = authn.NewWebhookTokens(authn.WebhookConfig{
			Client: client, URL: url, Version: h.config.TokenWebhookVersion, CacheTTL: h.config.TokenWebhookCacheTTL,
		})
	}
	return h.openProviders()
}

// openProviders reads which providers there are.
func (h *Host) openProviders() error {
	switch {
	case h.config.AuthenticationConfigFile != "":
		return h.openAuthenticationConfig(h.config.AuthenticationConfigFile)
	case h.config.OIDC.CAFile != "":
		return h.reloader.add("--oidc-ca-file", func(contents [][]byte) error {
			return h.setProviders(h.config.OIDC.configuration(contents[0]))
		}, h.config.OIDC.CAFile)
	case h.config.OIDC.isSet():
		if err := h.setProviders(h.config.OIDC.configuration(nil)); err != nil {
			return fmt.Errorf("--oidc-issuer-url: %w", err)
		}
	}
	return nil
}

// openAuthenticationConfig follows the file. Its settings for anonymous requests apply at startup
// only.
func (h *Host) openAuthenticationConfig(file string) error {
	opened := false
	return h.reloader.add("--authentication-config", func(contents [][]byte) (err error) {
		if opened {
			defer func() { h.reloads.authentication.Reloaded(err) }()
		}
		configuration, err := oidc.ParseConfiguration(contents[0])
		if err != nil {
			return err
		}
		switch {
		case opened && !reflect.DeepEqual(configuration.Anonymous, h.tokenUsers.anonymous):
			return errors.New("anonymous: it cannot be changed without a restart")
		case configuration.Anonymous != nil && h.config.ClosedToPublic:
			return errors.New("anonymous: it cannot be set together with --anonymous-auth")
		}
		if err := h.setProviders(configuration); err != nil {
			return err
		}
		h.tokenUsers.anonymous, opened = configuration.Anonymous, true
		h.reloads.authentication.Applied(contents[0])
		return nil
	}, file)
}

func (h *Host) setProviders(configuration *oidc.Configuration) error {
	providers, err := oidc.New(oidc.Config{
		Configuration: configuration, Disallowed: h.config.ServiceAccountIssuers, Networks: h.egress.Networks,
		Logger: h.logger, Metrics: h.providerMetrics,
	})
	if err != nil {
		return err
	}
	h.tokenUsers.providers.Store(providers)
	return nil
}
