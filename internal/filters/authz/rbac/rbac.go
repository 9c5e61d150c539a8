// Package rbac authorizes by roles and bindings (rbac.authorization.k8s.io). It
// keeps the rules of all roles compiled, and an index from users and groups to the
// bindings that name them, so that a decision looks at what is granted to its user
// and at nothing else. A write of a role or binding is in effect before its writer
// has the answer.
package rbac

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Authorizer decides by the roles and bindings that it was told of. It is safe for
// concurrent use.
type Authorizer struct {
	reflector.Followers
	logger *slog.Logger
	mu     sync.RWMutex // guards index
	index  index
}

// New returns an Authorizer that knows of no role. Reflectors tell it of all; metrics
// count their work, where that is not nil.
func New(logger *slog.Logger, metrics *reflector.Metrics) *Authorizer {
	a := &Authorizer{logger: logger, index: newIndex()}
	a.Followers = a.newFollowers(metrics)
	return a
}

// Authorize implements authorizer.Authorizer. It never denies.
func (a *Authorizer) Authorize(_ context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	if attributes.User == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	q := ask(attributes)
	var missing []*role
	var by *binding
	var to subject
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.index.visit(attributes.User, attributes.Namespace, func(s subject, b *binding) bool {
		switch {
		case b.role.missing:
			missing = append(missing, b.role)
		case b.role.allows(&q):
			by, to = b, s
			return false
		}
		return true
	})
	if by != nil {
		text := append(make([]byte, 0, 200), "RBAC: allowed by "...)
		return authorizer.DecisionAllow, string(by.describe(text, to)), nil
	}
	return authorizer.DecisionNoOpinion, missingReason(missing), nil
}

func missingReason(missing []*role) string {
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("RBAC: %v", missingError(missing))
}

// missingError names roles that bindings name and that are not there.
func missingError(missing []*role) error {
	var errs []error
	for _, r := range missing {
		resource := "clusterrole"
		if !r.key.isCluster() {
			resource = "role"
		}
		errs = append(errs, fmt.Errorf("%s.rbac.authorization.k8s.io %q not found", resource, r.key.name))
	}
	return utilerrors.NewAggregate(errs) // its text is as kube-apiserver's messages show several
}

// Rules returns the rules that a user has in a namespace, or, where that is "",
// everywhere. The error names what is missing from them; the rules are right all
// the same.
func (a *Authorizer) Rules(user *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var missing []*role
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.index.visit(user, namespace, func(_ subject, b *binding) bool {
		if b.role.missing {
			missing = append(missing, b.role)
		}
		for i := range b.role.rules {
			rules = append(rules, b.role.rules[i].policy())
		}
		return true
	})
	if len(missing) > 0 {
		return rules, missingError(missing)
	}
	return rules, nil
}

// RoleRules returns the rules of the role that a binding in a namespace names; false
// if it is not there.
func (a *Authorizer) RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, bool) {
	key := roleKey{name: ref.Name}
	if ref.Kind == "Role" {
		key.namespace = namespace
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	r := a.index.roles[key]
	if r == nil || r.missing {
		return nil, false
	}
	rules := make([]rbacv1.PolicyRule, len(r.rules))
	for i := range r.rules {
		rules[i] = r.rules[i].policy()
	}
	return rules, true
}
