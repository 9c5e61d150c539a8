package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/filters/authz"
	"mainstay.dev/mainstay/filters/authz/rbac"
	"mainstay.dev/mainstay/request"
)

// Modes of authorization.
const (
	modeAlwaysAllow = "AlwaysAllow"
	modeAlwaysDeny  = "AlwaysDeny"
	modeRBAC        = "RBAC"
)

func (o Options) checkAuthorization() error {
	var errs []error
	for i, mode := range o.AuthorizationModes {
		if mode != modeAlwaysAllow && mode != modeAlwaysDeny && mode != modeRBAC {
			errs = append(errs, fmt.Errorf("--authorization-mode=%s is not supported yet", mode))
		}
		if slices.Contains(o.AuthorizationModes[:i], mode) {
			errs = append(errs, fmt.Errorf("--authorization-mode names %s twice", mode))
		}
	}
	return errors.Join(errs...)
}

// openAuthorization creates what decides for requests, reviews and whoever asks in
// the middle of a request: by the modes of the flags, after system:masters.
func (i *instance) openAuthorization() error {
	union := authz.Union{authz.Masters{}}
	for _, mode := range i.options.AuthorizationModes {
		switch mode {
		case modeAlwaysAllow:
			union = append(union, authz.AlwaysAllow{})
		case modeAlwaysDeny:
			union = append(union, authz.AlwaysDeny{})
		case modeRBAC:
			i.rbac = rbac.New(i.env.Logger)
			union = append(union, i.rbac)
		}
	}
	i.authorizer = union
	return nil
}

// openRBAC creates what keeps roles and bindings known.
func (i *instance) openRBAC() error {
	if i.rbac == nil {
		return nil
	}
	for _, gvr := range rbac.Resources() {
		stored, err := i.uncached(gvr.GroupResource())
		if err != nil {
			return err
		}
		follow, err := i.rbac.Reflector(gvr.Resource, stored, i.env.Metrics.Reflectors)
		if err != nil {
			return err
		}
		i.roles = append(i.roles, follow)
	}
	return nil
}

// loadRBAC reads all roles and bindings.
func (i *instance) loadRBAC(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range i.roles {
		group.Go(func() error { return follow.Load(ctx) })
	}
	return group.Wait()
}

// followRBAC takes up what other servers write.
func (i *instance) followRBAC(ctx context.Context) error {
	var group errgroup.Group
	for _, follow := range i.roles {
		group.Go(func() error { follow.Run(ctx); return nil })
	}
	return group.Wait()
}

// reviewRules lists what a user may do in a namespace, as far as that is decided by
// rules.
func (i *instance) reviewRules(_ context.Context, user *request.User, namespace string) authorizationv1.SubjectRulesReviewStatus {
	var status authorizationv1.SubjectRulesReviewStatus
	var rules []rbacv1.PolicyRule
	if slices.Contains(i.options.AuthorizationModes, modeAlwaysAllow) {
		every := []string{"*"}
		rules = []rbacv1.PolicyRule{{Verbs: every, APIGroups: every, Resources: every}, {Verbs: every, NonResourceURLs: every}}
	}
	if i.rbac != nil {
		held, err := i.rbac.Rules(user, namespace)
		if rules = append(rules, held...); err != nil {
			status.Incomplete, status.EvaluationError = true, err.Error()
		}
	}
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
	return status
}
