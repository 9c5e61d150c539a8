package policies

import (
	"context"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/rest"
)

// Conditions are the match conditions of a webhook. They have the variables of a policy's match
// conditions, without parameters. They are safe for concurrent use.
type Conditions struct {
	config   *Config
	ignore   bool
	compiled func() policy.Conditions
}

// Conditions returns the match conditions of a webhook. They are compiled at first use. If ignore
// is set, Match returns false instead of an evaluation error. It retains the slice.
func (c *Config) Conditions(listed []admissionregistrationv1.MatchCondition, ignore bool) *Conditions {
	return &Conditions{config: c, ignore: ignore, compiled: sync.OnceValue(func() policy.Conditions {
		compiler := policy.Compiler{Programs: c.Programs}
		return compiler.Conditions(listed, policy.Scope{Authorizer: true})
	})}
}

// Match reports whether all conditions are true for a request, converted to the given resource. It returns
// the error of the evaluation, or of the lookup of the namespace.
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
