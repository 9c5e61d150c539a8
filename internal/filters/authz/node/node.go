// Package node authorizes kubelets: each may do what it needs for its own node
// and for the pods that are bound to it, and reads the secrets, ConfigMaps,
// claims, volumes and service accounts that those pods refer to, and no others.
// What belongs to which node it learns as package rbac does of roles: a pod's
// binding is in effect when it is answered. What a kubelet may write is told
// more exactly by the admission plugin NodeRestriction.
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
	// Rules are what every node may do, where the Authorizer does not look closer.
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

// New returns an Authorizer that knows of no pod. Reflectors tell it of all.
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
