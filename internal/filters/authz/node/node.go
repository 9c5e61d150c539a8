// Package node authorizes kubelets: each may access its own node, the pods bound to it, and the
// secrets, ConfigMaps, claims, volumes and service accounts that these pods reference. It follows
// pods as package rbac follows roles: the binding of a pod is in effect when its write returns. The
// admission plugin NodeRestriction limits the content of a kubelet's writes.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Config describes an Authorizer. All fields but Metrics are required.
type Config struct {
	// Rules are the permissions of all nodes that need no further check.
	Rules   []rbacv1.PolicyRule
	Gates   feature.Gates
	Logger  *slog.Logger
	Metrics *reflector.Metrics
}

// Authorizer decides for nodes. It has no opinion of other users, and never denies. It is
// safe for concurrent use.
type Authorizer struct {
	reflector.Followers
	rules *rbac.Rules
	gates feature.Gates
	mu    sync.RWMutex // guards graph
	graph graph
}

// New returns an empty Authorizer. Its reflectors report all objects.
func New(config Config) *Authorizer {
	a := &Authorizer{rules: rbac.NewRules(config.Rules), gates: config.Gates, graph: newGraph()}
	a.Followers = a.newFollowers(&config)
	return a
}

// Authorize implements authorizer.Authorizer.
func (a *Authorizer) Authorize(_ context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	name, ok := attributes.User.Node()
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if name == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", attributes.User.Name), nil
	}
	allowed, reason := a.decide(&question{attributes, name})
	if allowed {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}
