package controlplane

import (
	"context"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"

	"mainstay.dev/mainstay/request"
)

// reviewRules lists what a user may do: everything, or what everyone may.
func (i *instance) reviewRules(_ context.Context, user *request.User, _ string) authorizationv1.SubjectRulesReviewStatus {
	every := []string{"*"}
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	all := slices.Contains(i.options.AuthorizationModes, modeAlwaysAllow)
	if all || user != nil && slices.Contains(user.Groups, request.GroupMasters) {
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{Verbs: every, APIGroups: every, Resources: every})
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: every, NonResourceURLs: every})
		return status
	}
	status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{
		Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/livez", "/readyz", "/version", "/version/"},
	})
	return status
}
