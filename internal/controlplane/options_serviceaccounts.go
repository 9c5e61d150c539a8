package controlplane

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/flags"
)

// defaultIssuer is the default issuer of service account tokens, as in kube-apiserver.
const defaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Limits of MaxTokenExpiration, as in kube-apiserver.
const (
	minTokenExpiration = time.Hour
	maxTokenExpiration = (1 << 32) * time.Second
)

// ServiceAccountOptions configure the tokens of service accounts.
type ServiceAccountOptions struct {
	// Issuers contains the accepted issuers; new tokens contain the first one. An empty list
	// selects https://kubernetes.default.svc.cluster.local.
	Issuers []string
	// JWKSURI is the URL of the keys in the OpenID discovery document; "" selects a URL of this
	// server.
	JWKSURI string
	// MaxTokenExpiration is the maximum lifetime of requested tokens; 0 disables the limit.
	MaxTokenExpiration time.Duration
	// DisableTokenExtension makes the tokens of pods expire after the requested lifetime instead of one year.
	DisableTokenExtension bool
	// DisableTokenLookup accepts the tokens of Secrets even if the Secret or the service account
	// does not exist.
	DisableTokenLookup bool
}

// AddFlags defines the flags of the options.
func (o *ServiceAccountOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.Issuers, "service-account-issuer", nil, "issuer of service account tokens; if it is an https URL, other programs find the keys there; may be repeated: tokens are issued with the first issuer and accepted with all (default "+defaultIssuer+")")
	fs.StringVar(&o.JWKSURI, "service-account-jwks-uri", "", "https URL of the service account token keys in the OpenID discovery document (default: this server)")
	fs.DurationVar(&o.MaxTokenExpiration, "service-account-max-token-expiration", 0, "maximum lifetime of requested service account tokens, at least 1h; 0 disables the limit")
	flags.EnabledVar(fs, &o.DisableTokenExtension, "service-account-extend-token-expiration", "extend the lifetime of tokens in pods to one year, and count the requests with tokens that should have been renewed")
	flags.EnabledVar(fs, &o.DisableTokenLookup, "service-account-lookup", "accept the tokens of secrets only while the secret and the service account exist")
}

func (o *ServiceAccountOptions) setDefaults() {
	if len(o.Issuers) == 0 {
		o.Issuers = []string{defaultIssuer}
	}
}

func (o *ServiceAccountOptions) check() error {
	var errs []error
	for i, issuer := range o.Issuers {
		if issuer == "" {
			errs = append(errs, errors.New("--service-account-issuer is empty"))
		}
		if _, err := url.Parse(issuer); strings.Contains(issuer, ":") && err != nil { // RFC 7519: StringOrURI
			errs = append(errs, fmt.Errorf("--service-account-issuer=%s contained a ':' but was not a valid URL: %w", issuer, err))
		}
		if slices.Contains(o.Issuers[:i], issuer) {
			errs = append(errs, fmt.Errorf("--service-account-issuer names %s twice", issuer))
		}
	}
	if uri := o.JWKSURI; uri != "" {
		if u, err := url.Parse(uri); err != nil || u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("--service-account-jwks-uri=%s: it must be an https URL", uri))
		}
	}
	if limit := o.MaxTokenExpiration; limit != 0 && (limit < minTokenExpiration || limit > maxTokenExpiration) {
		errs = append(errs, fmt.Errorf("--service-account-max-token-expiration is %s; it must be between 1 hour and 2^32 seconds", limit))
	}
	return errors.Join(errs...)
}
