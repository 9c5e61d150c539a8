package host

import (
	"errors"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/authn"
)

// AuthenticationConfig configures the authenticators of the host. controlplane.AuthenticationOptions and
// controlplane.ServiceAccountOptions configure the authenticators of a control plane.
type AuthenticationConfig struct {
	// ClientCAFile contains CA certificates that verify client certificates, in addition to the server's
	// own CA; "" means that only the server's own CA is trusted.
	ClientCAFile  string
	RequestHeader RequestHeaderConfig
	// ServiceAccountKeys selects the keys that sign and verify service account tokens.
	ServiceAccountKeys ServiceAccountKeysConfig
	TokenFile          TokenFileConfig
	JWT                JWTConfig
	TokenWebhook       TokenWebhookConfig
}

// tokenAuthenticator is the configuration of an authenticator of bearer tokens. To add an authenticator,
// implement this interface in a new file, like tokenfile.go, and list the type in tokenAuthenticators.
type tokenAuthenticator interface {
	addFlags(fs *pflag.FlagSet)
	setDefaults()
	// check returns all errors, joined. The messages contain the names of the flags.
	check() error
	// open returns the authenticator, or nil if it is not configured.
	open(env *tokenEnv) (authn.TokenSource, error)
}

// tokenAuthenticators returns the configurations of all authenticators of bearer tokens, in the order of
// evaluation. The first authenticator that accepts a token determines the user.
func (c *AuthenticationConfig) tokenAuthenticators() []tokenAuthenticator {
	return []tokenAuthenticator{&c.TokenFile, &c.JWT, &c.TokenWebhook}
}

// AddFlags defines the flags of the config and of its groups.
func (c *AuthenticationConfig) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCAFile, "client-ca-file", "", "CA certificates for client certificates, in addition to the server's own CA; the common name is the user, the organizations are the groups")
	c.RequestHeader.addFlags(fs)
	c.ServiceAccountKeys.addFlags(fs)
	for _, a := range c.tokenAuthenticators() {
		a.addFlags(fs)
	}
}

func (c *AuthenticationConfig) setDefaults() {
	for _, a := range c.tokenAuthenticators() {
		a.setDefaults()
	}
}

func (c *AuthenticationConfig) check() error {
	errs := []error{c.RequestHeader.check(), c.ServiceAccountKeys.check()}
	for _, a := range c.tokenAuthenticators() {
		errs = append(errs, a.check())
	}
	return errors.Join(errs...)
}
