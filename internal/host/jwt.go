package host

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/oidc"
	"mainstay.dev/mainstay/internal/request"
)

// JWTConfig configures the authenticators of JSON Web Tokens of OpenID Connect providers.
type JWTConfig struct {
	// ConfigFile is an AuthenticationConfiguration, which can also specify which requests may be anonymous;
	// "" if there is none. When the file changes, the server uses the new providers.
	ConfigFile string
	// OIDC is a single provider. It cannot be combined with ConfigFile.
	OIDC OIDCConfig
}

// OIDCConfig configures one OpenID Connect provider. If any field is set, IssuerURL and ClientID are
// required.
type OIDCConfig struct {
	IssuerURL, ClientID string
	// CAFile contains the CA certificates of the provider; "" selects the operating system's.
	CAFile string
	// UsernameClaim is the claim with the user name; "" selects sub.
	UsernameClaim string
	// UsernamePrefix is the prefix of user names. "-" selects no prefix. "" selects the issuer followed by
	// "#", or no prefix if the claim is email.
	UsernamePrefix            string
	GroupsClaim, GroupsPrefix string
	// SigningAlgs are the accepted algorithms; empty selects RS256.
	SigningAlgs []string
	// RequiredClaims maps the names of required claims to their required values.
	RequiredClaims map[string]string
}

func (c *JWTConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ConfigFile, "authentication-config", "", "AuthenticationConfiguration of apiserver.config.k8s.io/v1: OpenID Connect providers instead of the oidc flags, and the paths for anonymous requests; reloaded when the file changes")
	o := &c.OIDC
	fs.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "https URL of the OpenID Connect provider that issues tokens")
	fs.StringVar(&o.ClientID, "oidc-client-id", "", "audience of the provider's tokens for this server")
	fs.StringVar(&o.CAFile, "oidc-ca-file", "", "CA certificates for the provider's serving certificate (default: the operating system's)")
	fs.StringVar(&o.UsernameClaim, "oidc-username-claim", "", "claim with the user name (default sub)")
	fs.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "prefix of user names, - for no prefix (default: the issuer and #, except for the claim email)")
	fs.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim with the group or groups (default: no groups)")
	fs.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups")
	fs.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", nil, "signature algorithms of the provider's tokens, comma-separated: RS256, RS384, RS512, ES256, ES384, ES512, PS256, PS384, PS512 (default RS256)")
	fs.StringToStringVar(&o.RequiredClaims, "oidc-required-claim", nil, "required claim, as NAME=VALUE; may be repeated")
}

func (c *JWTConfig) setDefaults() {}

func (c *JWTConfig) check() error {
	var errs []error
	if c.ConfigFile != "" && c.OIDC.isSet() {
		errs = append(errs, errors.New("--authentication-config and the oidc-* flags are mutually exclusive"))
	}
	return errors.Join(append(errs, c.OIDC.check())...)
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

func (c *JWTConfig) open(env *tokenEnv) (authn.TokenSource, error) {
	providers := &jwtProviders{env: env, changed: make(chan struct{}, 1)}
	var err error
	switch {
	case c.ConfigFile != "":
		err = providers.follow(c.ConfigFile)
	case c.OIDC.CAFile != "":
		err = env.reloader.add("--oidc-ca-file", func(contents [][]byte) error {
			return providers.set(c.OIDC.configuration(contents[0]))
		}, c.OIDC.CAFile)
	case c.OIDC.isSet():
		if err = providers.set(c.OIDC.configuration(nil)); err != nil {
			err = fmt.Errorf("--oidc-issuer-url: %w", err)
		}
	default:
		return nil, nil
	}
	env.providers = providers
	return authn.UserTokens(providers.user), err
}

// jwtProviders authenticates the tokens of the current providers. It is safe for concurrent use.
type jwtProviders struct {
	env     *tokenEnv
	current atomic.Pointer[oidc.Authenticators]
	changed chan struct{} // receives a value after current has changed
}

// user returns the user of a token, or nil if no current provider issued the token.
func (p *jwtProviders) user(ctx context.Context, token string) (*request.User, error) {
	return p.current.Load().User(ctx, token)
}

// follow reads an AuthenticationConfiguration, now and whenever the file changes. A changed file with other
// settings for anonymous requests is rejected, because these settings take effect only at startup.
func (p *jwtProviders) follow(file string) error {
	opened, env := false, p.env
	return env.reloader.add("--authentication-config", func(contents [][]byte) (err error) {
		if opened {
			defer func() { env.reloads.Reloaded(err) }()
		}
		configuration, err := oidc.ParseConfiguration(contents[0])
		if err != nil {
			return err
		}
		switch {
		case opened && !reflect.DeepEqual(configuration.Anonymous, env.anonymous):
			return errors.New("anonymous: it cannot be changed without a restart")
		case configuration.Anonymous != nil && env.disableAnonymousAuth:
			return errors.New("anonymous: it cannot be set together with --anonymous-auth")
		}
		if err := p.set(configuration); err != nil {
			return err
		}
		env.anonymous, opened = configuration.Anonymous, true
		env.reloads.Applied(contents[0])
		return nil
	}, file)
}

func (p *jwtProviders) set(configuration *oidc.Configuration) error {
	next, err := oidc.New(oidc.Config{
		Configuration: configuration, Disallowed: p.env.serviceAccountIssuers, Networks: p.env.egress.Networks,
		Logger: p.env.logger, Metrics: p.env.metrics,
	})
	if err != nil {
		return err
	}
	p.current.Store(next)
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return nil
}
