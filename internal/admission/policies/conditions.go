package policies

import (
	"context"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/rest"
)

// Conditions contains the match conditions of a webhook. The conditions can use the same variables as those of
// a policy, except params. Conditions is safe for concurrent use.
type Conditions struct {
	config   *Config
	ignore   bool
	compiled func() policy.Conditions
}

// Conditions returns the match conditions of a webhook, which are compiled at first use. If ignore is true,
// Match returns false instead of an evaluation error. Conditions retains the slice.
func (c *Config) Conditions(listed []admissionregistrationv1.MatchCondition, ignore bool) *Conditions {
	return &Conditions{config: c, ignore: ignore, compiled: sync.OnceValue(func() policy.Conditions {
		compiler := policy.Compiler{Programs: c.Programs}
		return compiler.Conditions(listed, policy.Scope{Authorizer: true})
	})}
}

// Match reports whether all conditions are true for a request, converted to the given resource. The error is an
// evaluation error or the error of reading the namespace.
func (c *Conditions) Match(ctx context.Context, s *match.Subject, matched *rest.Resource) (bool, error) {
	in, err := c.config.review(ctx, s).input(matched, nil, nil)
	if err != nil {
		return false, err
	}
	matches, _, err := c.compiled().Match(ctx, in)
	if err != nil && c.ignore {
		return false, nil
	}
	return matches, err
}
