package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/authz/node"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// authorizerType is a type of authorizer that a control plane can create.
type authorizerType struct {
	name string
	// open returns the authorizer of a control plane, or nil if its dependencies are not
	// configured. It is called only for types in the configuration. It is nil for AlwaysAllow and
	// AlwaysDeny, which package authz creates.
	open func(*settings, *authorization) authorizer.Authorizer
	// rules returns the rules that allow requests of a user in a namespace, for
	// SelfSubjectRulesReview. An error means that the result is incomplete. If the function is nil,
	// the authorizer has no rules.
	rules func(a *authorization, user *request.User, namespace string) ([]rbacv1.PolicyRule, error)
}

// authorizerTypes returns the types of authorizers. To add a type, implement it in filters/authz
// and add an entry here. The order of the entries has no effect, because the order of authorizers
// is configured.
func authorizerTypes() []authorizerType {
	return []authorizerType{
		{name: authz.TypeAlwaysAllow, rules: allRules},
		{name: authz.TypeAlwaysDeny},
		{name: authz.TypeNode, open: openNodeAuthorizer, rules: nodeRules},
		{name: authz.TypeRBAC, open: openRBACAuthorizer, rules: func(a *authorization, user *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
			return a.rbac.Rules(user, namespace)
		}},
		{name: authz.TypeABAC, open: func(_ *settings, a *authorization) authorizer.Authorizer {
			if a.config.Policies == nil {
				return nil
			}
			return a.config.Policies
		}, rules: func(a *authorization, user *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
			return a.config.Policies.Rules(user, namespace), nil
		}},
		{name: authz.TypeWebhook, open: func(_ *settings, a *authorization) authorizer.Authorizer {
			return a.config.Webhook
		}, rules: func(*authorization, *request.User, string) ([]rbacv1.PolicyRule, error) {
			return nil, errors.New("webhook authorizer does not support user rule resolution")
		}},
	}
}

// authorization contains the authorizers of a control plane.
type authorization struct {
	config Authorization
	// current returns the configured authorizers in their order.
	current func() *[]authz.NamedAuthorizer
	// authorizer authorizes requests, access reviews and checks within requests. It allows all
	// requests of the group system:masters, and otherwise evaluates the configured authorizers in
	// order.
	authorizer authorizer.Authorizer
	// node and rbac are parts of authorizer; nil if they are not configured.
	node  *node.Authorizer
	rbac  *rbac.Authorizer
	types []authorizerType
}

// newAuthorization creates the configured authorizers. It returns an error for an authorizer that is
// configured without its dependencies.
func newAuthorization(s *settings) (*authorization, error) {
	modes := authz.FromModes(s.options.Authorization.Modes)
	a := &authorization{config: s.env.Authorization, current: s.env.Authorization.Configured, types: authorizerTypes()}
	if a.current == nil {
		a.current = func() *[]authz.NamedAuthorizer { return &modes }
	}
	own := map[string]authorizer.Authorizer{}
	for _, t := range a.types {
		if t.open == nil || !a.configured(t.name) {
			continue
		}
		if opened := t.open(s, a); opened != nil {
			own[t.name] = opened
		}
	}
	for _, listed := range *a.current() {
		if listed.Authorizer == nil && own[listed.Type] == nil {
			return nil, fmt.Errorf("authorization by %s is not configured", listed.Type)
		}
	}
	a.authorizer = authz.NewReloadableUnion(a.current, own, s.env.Telemetry.Metrics.Security.Authorizers)
	return a, nil
}

// configured reports whether the current configuration contains an authorizer of a type.
func (a *authorization) configured(name string) bool {
	return slices.ContainsFunc(*a.current(), func(l authz.NamedAuthorizer) bool { return l.Type == name })
}

func openNodeAuthorizer(s *settings, a *authorization) authorizer.Authorizer {
	a.node = node.New(node.Config{Rules: bootstrap.NodeRules(s.gates), Gates: s.gates, Logger: s.env.Telemetry.Logger, Metrics: s.reflectorMetrics()})
	return a.node
}

func openRBACAuthorizer(s *settings, a *authorization) authorizer.Authorizer {
	a.rbac = rbac.New(s.env.Telemetry.Logger, s.reflectorMetrics(), s.env.Shared.rbacObjects())
	if s.options.Authorization.ListVisible {
		a.rbac.CacheNamespaces()
	}
	return a.rbac
}

// followers returns the followers of the authorizers that depend on stored objects.
func (a *authorization) followers() []reflector.Followers {
	var all []reflector.Followers
	if a.node != nil {
		all = append(all, a.node.Followers)
	}
	if a.rbac != nil {
		all = append(all, a.rbac.Followers)
	}
	return all
}

// resources returns the resources whose writes must have taken effect by the time the writer
// receives its response. A resource may occur twice.
func (a *authorization) resources() []schema.GroupResource {
	var all []schema.GroupResource
	for _, followers := range a.followers() {
		all = slices.AppendSeq(all, followers.Resources())
	}
	return all
}

// follow creates the reflectors for the stored objects that the authorizers use, and adds observers
// for the writes of this server.
func (a *authorization) follow(builtin *builtinResources) (reflectors, error) {
	var all reflectors
	for _, followers := range a.followers() {
		for resource := range followers.Resources() {
			if !builtin.stores(resource) {
				continue
			}
			stored, err := builtin.uncached(resource)
			if err != nil {
				return nil, err
			}
			follower, err := followers.Reflector(resource, stored)
			if err != nil {
				return nil, err
			}
			all = append(all, follower)
			if err := builtin.storage.observers.addWritten(resource, followers.Observer(resource)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// reviewRules implements builtin.Auth.UserRules. It returns the rules of all configured
// authorizers.
func (a *authorization) reviewRules(_ context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus {
	var status authorizationv1.SubjectRulesReviewStatus
	var errs []error
	for _, listed := range *a.current() {
		at := slices.IndexFunc(a.types, func(t authorizerType) bool { return t.name == listed.Type })
		if at < 0 || a.types[at].rules == nil {
			continue
		}
		rules, err := a.types[at].rules(a, user, namespace)
		if err != nil {
			errs = append(errs, err)
		}
		addRules(&status, rules)
	}
	if err := utilerrors.NewAggregate(errs); err != nil { // formats the errors like kube-apiserver
		status.Incomplete, status.EvaluationError = true, err.Error()
	}
	return status
}

// allRules returns the rules of AlwaysAllow.
func allRules(*authorization, *request.User, string) ([]rbacv1.PolicyRule, error) {
	every := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: every, APIGroups: every, Resources: every}, {Verbs: every, NonResourceURLs: every}}, nil
}

// nodeRules returns an error for nodes, because their permissions depend on objects, not on rules.
func nodeRules(_ *authorization, user *request.User, _ string) ([]rbacv1.PolicyRule, error) {
	if _, ok := user.Node(); ok {
		return nil, errors.New("node authorizer does not support user rule resolution")
	}
	return nil, nil
}

func addRules(status *authorizationv1.SubjectRulesReviewStatus, rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
		}
	}
}
