// Package rbac authorizes requests with roles and bindings (rbac.authorization.k8s.io). It compiles the rules
// of all roles, and maintains an index from users and groups to bindings, so that a decision evaluates only the
// grants of the user. A write of a role or binding has taken effect by the time it returns.
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

// Authorizer evaluates the roles and bindings that its Followers report. It is safe for concurrent
// use.
type Authorizer struct {
	reflector.Followers
	logger *slog.Logger
	mu     sync.RWMutex // guards index
	index  index
}

// New returns an Authorizer without objects. The caller must run its Followers. metrics may be nil. If shared
// is nil, nothing is shared.
func New(logger *slog.Logger, metrics *reflector.Metrics, shared *Shared) *Authorizer {
	a := &Authorizer{logger: logger, index: newIndex()}
	a.index.shared = shared
	a.Followers = a.newFollowers(metrics)
	return a
}

// Authorize implements authorizer.Authorizer. It returns DecisionAllow or DecisionNoOpinion, and no
// error. It does not block on I/O.
func (a *Authorizer) Authorize(_ context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	if attributes.User == nil {
		return authorizer.DecisionNoOpinion, "", nil
	}
	q := prepare(attributes)
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

// missingError returns an error for roles that bindings refer to, but that do not exist.
func missingError(missing []*role) error {
	var errs []error
	for _, r := range missing {
		resource := "clusterrole"
		if !r.key.isCluster() {
			resource = "role"
		}
		errs = append(errs, fmt.Errorf("%s.rbac.authorization.k8s.io %q not found", resource, r.key.name))
	}
	return utilerrors.NewAggregate(errs) // formats several errors like kube-apiserver
}

// Rules returns the rules of a user that apply in a namespace, or cluster-wide if namespace is "".
// The result is a new slice. If roles are missing, Rules returns an error that lists them, and the
// rules of the existing roles.
func (a *Authorizer) Rules(user *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var missing []*role
	a.mu.RLock()
	defer a.mu.RUnlock()
	a.index.visit(user, namespace, func(_ subject, b *binding) bool {
		if b.role.missing {
			missing = append(missing, b.role)
		}
		for _, r := range b.role.all() {
			rules = append(rules, r.policy())
		}
		return true
	})
	if len(missing) > 0 {
		return rules, missingError(missing)
	}
	return rules, nil
}

// RoleRules returns the rules of the role that a binding in a namespace refers to, in a new slice.
// It returns false if the role does not exist.
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
	rules := make([]rbacv1.PolicyRule, 0, len(r.all()))
	for _, rule := range r.all() {
		rules = append(rules, rule.policy())
	}
	return rules, true
}
