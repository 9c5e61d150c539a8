// Package node authorizes kubelets. A kubelet may access its own node, the pods bound to it, and
// the secrets, ConfigMaps, claims, volumes and service accounts that these pods refer to. The
// binding of a pod has taken effect by the time the write of the binding returns (see package
// reflector). The admission plugin NodeRestriction limits the content of a kubelet's writes.
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

// Config configures an Authorizer. All fields except Metrics are required.
type Config struct {
	// Rules are the permissions that all nodes have for resources whose relation to the node is not checked.
	Rules   []rbacv1.PolicyRule
	Gates   feature.Gates
	Logger  *slog.Logger
	Metrics *reflector.Metrics
}

// Authorizer authorizes requests of node users. It returns DecisionAllow or DecisionNoOpinion,
// never DecisionDeny. It is safe for concurrent use.
type Authorizer struct {
	reflector.Followers
	rules *rbac.Rules
	gates feature.Gates
	mu    sync.RWMutex // guards graph
	graph graph
}

// New returns an Authorizer without objects. The caller must run its Followers, which report pods,
// volumes and other objects that belong to nodes.
func New(config Config) *Authorizer {
	a := &Authorizer{rules: rbac.NewRules(config.Rules), gates: config.Gates, graph: newGraph()}
	a.Followers = a.newFollowers(&config)
	return a
}

// Authorize implements authorizer.Authorizer. It does not block on I/O.
func (a *Authorizer) Authorize(_ context.Context, attributes *authorizer.Attributes) (authorizer.Decision, string, error) {
	name, ok := attributes.User.Node()
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if name == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", attributes.User.Name), nil
	}
	allowed, reason := a.decide(&nodeRequest{attributes, name})
	if allowed {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}
