package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"mainstay.dev/mainstay/internal/apis/bootstrap"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/filters/authz/abac"
	"mainstay.dev/mainstay/internal/filters/authz/node"
	"mainstay.dev/mainstay/internal/filters/authz/rbac"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Authorization contains the authorizers that are configured outside a control plane.
type Authorization struct {
	// Configured returns the authorizers in order, instead of Options.AuthorizationModes; nil
	// selects these modes. A change replaces the list. A later list contains no built-in authorizer
	// that the first one did not contain.
	Configured func() *[]authz.Listed
	// Webhook and Policies are the authorizers of the modes Webhook and ABAC; nil disables them.
	Webhook  authorizer.Authorizer
	Policies abac.Policies
}

// AuthorizationModes are the modes that there are.
func AuthorizationModes() []string { return authz.Types() }

func (o Options) checkAuthorization() error {
	var errs []error
	for i, mode := range o.AuthorizationModes {
		if !slices.Contains(authz.Types(), mode) {
			errs = append(errs, fmt.Errorf("--authorization-mode: %q is not a valid mode; there are %s", mode, strings.Join(authz.Types(), ", ")))
		}
		if slices.Contains(o.AuthorizationModes[:i], mode) {
			errs = append(errs, fmt.Errorf("--authorization-mode names %s twice", mode))
		}
	}
	return errors.Join(errs...)
}

// authorizers returns the current authorizers.
func (i *instance) authorizers() *[]authz.Listed {
	if configured := i.env.Authorization.Configured; configured != nil {
		return configured()
	}
	return i.modes
}

// asks reports whether an authorizer of a type is configured.
func (i *instance) asks(of string) bool {
	return slices.ContainsFunc(*i.authorizers(), func(l authz.Listed) bool { return l.Type == of })
}

// openAuthorization creates the authorizer for requests, reviews and checks within requests:
// system:masters first, then the configured authorizers.
func (i *instance) openAuthorization() error {
	modes := authz.ByModes(i.options.AuthorizationModes)
	i.modes = &modes
	own := map[string]authorizer.Authorizer{}
	if i.asks(authz.TypeNode) {
		i.node = node.New(node.Config{
			Rules: bootstrap.NodeRules(), Gates: i.options.Gates(), Logger: i.env.Logger, Metrics: i.env.Metrics.Reflectors,
		})
		own[authz.TypeNode] = i.node
	}
	if i.asks(authz.TypeRBAC) {
		i.rbac = rbac.New(i.env.Logger, i.env.Metrics.Reflectors)
		if i.options.ListVisible {
			i.rbac.KeepNamespaces()
		}
		own[authz.TypeRBAC] = i.rbac
	}
	if webhook := i.env.Authorization.Webhook; webhook != nil {
		own[authz.TypeWebhook] = webhook
	}
	if policies := i.env.Authorization.Policies; policies != nil {
		own[authz.TypeABAC] = policies
	}
	for _, listed := range *i.authorizers() {
		if listed.Authorizer == nil && own[listed.Type] == nil {
			return fmt.Errorf("authorization by %s is not configured", listed.Type)
		}
	}
	i.authorizer = authz.NewInOrder(i.authorizers, own, i.env.Metrics.Authorization)
	return nil
}

// rightsFollowers returns the followers of the authorizers that depend on stored objects.
func (i *instance) rightsFollowers() []reflector.Followers {
	var all []reflector.Followers
	if i.node != nil {
		all = append(all, i.node.Followers)
	}
	if i.rbac != nil {
		all = append(all, i.rbac.Followers)
	}
	return all
}

// openRights creates the reflectors of these authorizers.
func (i *instance) openRights() error {
	for _, followers := range i.rightsFollowers() {
		for resource := range followers.Resources() {
			stored, err := i.uncached(resource)
			if err != nil {
				return err
			}
			follow, err := followers.Reflector(resource, stored)
			if err != nil {
				return err
			}
			i.rights = append(i.rights, follow)
		}
	}
	return nil
}

// rightsObserver returns the observer of writes for an authorizer, or nil.
func (i *instance) rightsObserver(resource schema.GroupResource) *storage.Observer {
	for _, followers := range i.rightsFollowers() {
		if observer := followers.Observer(resource); observer != nil {
			return observer
		}
	}
	return nil
}

// loadRights reads all that authorizers decide by.
func (i *instance) loadRights(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range i.rights {
		group.Go(func() error { return follow.Load(ctx) })
	}
	return group.Wait()
}

// followRights processes the writes of other servers.
func (i *instance) followRights(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range i.rights {
		group.Go(func() error { follow.Run(ctx); return nil })
	}
	return group.Wait()
}

// reviewRules lists the permissions of a user in a namespace, as far as rules determine them.
func (i *instance) reviewRules(_ context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus {
	var status authorizationv1.SubjectRulesReviewStatus
	var errs []error
	for _, listed := range *i.authorizers() {
		rules, err := i.rulesOf(listed.Type, user, namespace)
		if err != nil {
			errs = append(errs, err)
		}
		addRules(&status, rules)
	}
	if err := utilerrors.NewAggregate(errs); err != nil { // its text is as kube-apiserver's
		status.Incomplete, status.EvaluationError = true, err.Error()
	}
	return status
}

// rulesOf returns the rules with which authorizers of a type allow requests. The error describes
// missing rules.
func (i *instance) rulesOf(of string, user *request.User, namespace string) ([]rbacv1.PolicyRule, error) {
	switch of {
	case authz.TypeAlwaysAllow:
		every := []string{"*"}
		return []rbacv1.PolicyRule{{Verbs: every, APIGroups: every, Resources: every}, {Verbs: every, NonResourceURLs: every}}, nil
	case authz.TypeNode:
		if _, ok := user.Node(); ok {
			return nil, errors.New("node authorizer does not support user rule resolution")
		}
	case authz.TypeWebhook:
		return nil, errors.New("webhook authorizer does not support user rule resolution")
	case authz.TypeABAC:
		return i.env.Authorization.Policies.Rules(user, namespace), nil
	case authz.TypeRBAC:
		return i.rbac.Rules(user, namespace)
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
