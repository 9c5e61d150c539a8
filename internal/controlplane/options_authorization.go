package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/filters/authz"
)

// AuthorizationOptions configure authorization, except for the files and webhooks of the host.
type AuthorizationOptions struct {
	// Modes contains values of authz.Types in the order of evaluation; empty selects Node and RBAC. Members of
	// system:masters always have all permissions.
	Modes []string
	// ListVisible makes lists and watches of all namespaces return the objects of the namespaces that RBAC
	// allows the user to read, instead of 403.
	ListVisible bool
}

// AddFlags defines the flags of the options.
func (o *AuthorizationOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Modes, "authorization-mode", nil, "authorizers, in the order of evaluation: "+strings.Join(authz.Types(), ", ")+" (default Node,RBAC)")
	fs.BoolVar(&o.ListVisible, "list-visible", false, "respond to lists and watches of all namespaces with the objects of the namespaces that RBAC allows the user to read, instead of 403; watches follow changes of the permissions")
}

func (o *AuthorizationOptions) setDefaults() {
	if len(o.Modes) == 0 {
		o.Modes = []string{authz.TypeNode, authz.TypeRBAC}
	}
}

func (o *AuthorizationOptions) check() error {
	var errs []error
	for i, mode := range o.Modes {
		if !slices.Contains(authz.Types(), mode) {
			errs = append(errs, fmt.Errorf("--authorization-mode: %q is not a valid mode; there are %s", mode, strings.Join(authz.Types(), ", ")))
		}
		if slices.Contains(o.Modes[:i], mode) {
			errs = append(errs, fmt.Errorf("--authorization-mode names %s twice", mode))
		}
	}
	return errors.Join(errs...)
}
