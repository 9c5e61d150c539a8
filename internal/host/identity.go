package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/selector"
	"mainstay.dev/mainstay/internal/filters/authn"
	"mainstay.dev/mainstay/internal/filters/authn/oidc"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/telemetry"
)

// identity contains the keys and certificates of a server, and the authenticators that need no
// control plane.
type identity struct {
	config *Config
	dir    string // directory of keys and certificates
	logger *slog.Logger

	authority           *pki.Authority // the server's own CA
	serviceAccountKeys  serviceAccountKeys
	tokenAuthenticators []authn.TokenSource // in the order of evaluation
	anonymous           *authn.AnonymousConfig
	providers           *jwtProviders // nil without OpenID Connect
	serving             *certificates
	clients             *clientCA
	signing             func(signer string) *tls.Certificate
	frontProxy          *frontProxy
	kubelet             kubeletCertificates
	peers               *x509.CertPool // nil without --peer-ca-file
}

// tokenEnv is the environment of the authenticators of bearer tokens.
type tokenEnv struct {
	egress   *selector.Selector
	reloader *fileReloader
	metrics  *oidc.Metrics
	reloads  *telemetry.Reloads
	logger   *slog.Logger
	// serviceAccountIssuers are the issuers of service account tokens. Authenticators of other tokens must not
	// accept them.
	serviceAccountIssuers []string
	disableAnonymousAuth  bool
	// anonymous specifies which requests may be anonymous. An authenticator sets it if its configuration
	// contains such settings; otherwise it is nil.
	anonymous *authn.AnonymousConfig
	// providers are the OpenID Connect providers. JWTConfig.open sets them; nil if none are configured.
	providers *jwtProviders
}

// openIdentity loads keys and certificates, and creates missing ones in dir. It blocks until the
// program of --service-account-signing-endpoint responds, or ctx ends. The caller must call close.
func openIdentity(ctx context.Context, config *Config, dir string, egress *selector.Selector, reloader *fileReloader, m *metrics) (*identity, error) {
	i := &identity{config: config, dir: dir, logger: config.Logger}
	for _, open := range []func() error{
		func() (err error) {
			i.authority, err = pki.Open(dir)
			return err
		},
		func() (err error) {
			i.serviceAccountKeys, err = config.Authentication.ServiceAccountKeys.open(ctx, dir, config.ControlPlane.ServiceAccounts.MaxTokenExpiration, m.registry, i.logger)
			return err
		},
		func() error {
			return i.openTokenAuthenticators(&tokenEnv{
				egress: egress, reloader: reloader, metrics: m.jwt, reloads: m.authenticationReloads, logger: i.logger,
				serviceAccountIssuers: config.ControlPlane.ServiceAccounts.Issuers, disableAnonymousAuth: config.ControlPlane.Authentication.DisableAnonymousAuth,
			})
		},
		func() (err error) {
			i.serving, err = newCertificates(config.TLS, i.authority, reloader)
			return err
		},
		func() (err error) {
			i.clients, err = openClientCA(config.Authentication.ClientCAFile, i.authority, m.controlPlane.Security.Authentication.Expiration(), reloader)
			return err
		},
		func() (err error) {
			i.signing, err = config.Signing.open(i.authority.KeyPair(), reloader)
			return err
		},
		i.renewServing,
		// The flags that the following steps read may name files that the steps above create.
		func() (err error) {
			i.frontProxy, err = openFrontProxy(config.Authentication.RequestHeader, config.Aggregation, dir, reloader)
			return err
		},
		func() (err error) {
			i.kubelet, err = config.Kubelet.open(reloader)
			return err
		},
		func() (err error) {
			i.peers, err = config.Aggregation.openPeerAuthorities()
			return err
		},
	} {
		if err := open(); err != nil {
			return nil, errors.Join(err, i.close())
		}
	}
	return i, nil
}

func (i *identity) openTokenAuthenticators(env *tokenEnv) error {
	for _, a := range i.config.Authentication.tokenAuthenticators() {
		source, err := a.open(env)
		if err != nil {
			return err
		}
		if source != nil {
			i.tokenAuthenticators = append(i.tokenAuthenticators, source)
		}
	}
	i.anonymous, i.providers = env.anonymous, env.providers
	return nil
}

// controlPlane returns the identity for control planes.
func (i *identity) controlPlane() controlplane.Identity {
	return controlplane.Identity{
		Authenticator:         authn.Union{i.frontProxy, i.clients},
		ClusterAuthentication: i.clusterAuthentication,
		ServingCA:             i.servingCA,
		ProxyCertificate:      i.frontProxy.certificate,
		KubeletCertificate:    i.kubelet.client,
		KubeletAuthorities:    i.kubelet.authorities,
		Signing:               i.signing,
		TokenAuthenticators:   i.tokenAuthenticators,
		Anonymous:             i.anonymous,
		TokenKeys:             i.serviceAccountKeys.Keys,
		MaxTokenLifetime:      i.serviceAccountKeys.maxLifetime(),
	}
}

// renewServing issues the serving certificate with the server's own CA, or renews it if it is about to
// expire. It does nothing if certificate files are configured.
func (i *identity) renewServing() error {
	if i.serving.file != nil {
		return nil
	}
	cert, err := i.authority.Serving(i.config.Listen.certificateHosts(i.config.ControlPlane.Services.FirstIP()))
	if err != nil {
		return err
	}
	i.serving.setOwn(cert)
	if dir := i.config.TLS.CertDir; dir != "" {
		if err := i.authority.Export(dir, cert); err != nil {
			return fmt.Errorf("--cert-dir: %w", err)
		}
	}
	return nil
}

// warnBefore is the time before the expiry of the server's own CA at which warnings start.
const warnBefore = 365 * 24 * time.Hour

// renew renews the certificates of the server's own CAs that are about to expire.
func (i *identity) renew() error {
	if expires := i.authority.NotAfter(); time.Until(expires) < warnBefore {
		i.logger.Warn("the certificate authority expires within a year", "expires", expires, "folder", i.dir)
	}
	return errors.Join(i.renewServing(), i.frontProxy.renew())
}

// servingCA returns the CA certificates that verify this server, in PEM. The result must not be
// modified.
func (i *identity) servingCA() []byte {
	if i.serving.file == nil {
		return i.authority.Bundle()
	}
	return i.serving.file.current.Load().pem
}

// clientAuthorities returns the CA certificates that the TLS handshake names to clients.
func (i *identity) clientAuthorities() *x509.CertPool {
	pool := i.clients.current.Load().certificates.Authorities.Clone()
	pool.AppendCertsFromPEM(i.frontProxy.current.Load().bundle)
	return pool
}

func (i *identity) close() error { return i.serviceAccountKeys.close() }
