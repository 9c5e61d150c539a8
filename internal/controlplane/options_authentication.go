package controlplane

import (
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/flags"
)

// AuthenticationOptions configure authentication, except for the keys, files and servers of the
// host.
type AuthenticationOptions struct {
	// DisableAnonymousAuth rejects requests without credentials.
	DisableAnonymousAuth bool
	// APIAudiences are the audiences of tokens for this server; empty selects the issuers of service
	// account tokens.
	APIAudiences []string
	// BootstrapTokens enables authentication with the tokens in bootstrap Secrets.
	BootstrapTokens bool
}

// AddFlags defines the flags of the options.
func (o *AuthenticationOptions) AddFlags(fs *pflag.FlagSet) {
	flags.EnabledVar(fs, &o.DisableAnonymousAuth, "anonymous-auth", "treat requests without credentials as system:anonymous instead of rejecting them")
	fs.StringSliceVar(&o.APIAudiences, "api-audiences", nil, "audiences of tokens for this server, comma-separated (default: the issuers of service account tokens)")
	fs.BoolVar(&o.BootstrapTokens, "enable-bootstrap-token-auth", false, "accept the tokens of secrets of the type bootstrap.kubernetes.io/token in kube-system")
}

func (o *AuthenticationOptions) setDefaults(accounts *ServiceAccountOptions) {
	if len(o.APIAudiences) == 0 {
		o.APIAudiences = accounts.Issuers
	}
}
