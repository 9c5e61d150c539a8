package controlplane

import (
	"context"
	"slices"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/endpoints/route"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// newViews returns the function that limits lists and watches over all namespaces to the visible namespaces
// (--list-visible), or nil if this limit is disabled.
func newViews(s *settings, a *authorization) filters.ViewFunc {
	if !s.options.Authorization.ListVisible || a.rbac == nil {
		return nil
	}
	return func(ctx context.Context, attributes *authorizer.Attributes) (request.Visibility, func()) {
		decides, alone := a.rbacDecides()
		if !decides || allowedOtherwise(attributes.User) || !isLimitable(ctx) {
			return nil, nil
		}
		view := a.rbac.View(attributes, alone)
		if view == nil {
			return nil, nil
		}
		return view, view.Close
	}
}

// isLimitable reports whether a request is for namespaced objects of this control plane. Aggregated
// servers do not support limits to visible namespaces.
func isLimitable(ctx context.Context) bool {
	r := route.From(ctx)
	return r != nil && r.Resource != nil && r.Resource.Namespaced
}

// allowedOtherwise reports whether a user may list objects for a reason other than RBAC bindings.
func allowedOtherwise(user *request.User) bool {
	_, isNode := user.Node()
	return isNode || user != nil && slices.Contains(user.Groups, request.GroupMasters)
}

// rbacDecides reports whether an RBAC permission is final, because no earlier authorizer can deny it. alone
// reports whether no other authorizer can allow lists over all namespaces.
func (a *authorization) rbacDecides() (decides, alone bool) {
	list := *a.current()
	at := slices.IndexFunc(list, func(l authz.NamedAuthorizer) bool { return l.Type == authz.TypeRBAC })
	if at < 0 {
		return false, false
	}
	isWebhook := func(l authz.NamedAuthorizer) bool { return l.Type == authz.TypeWebhook }
	others := slices.ContainsFunc(list, func(l authz.NamedAuthorizer) bool {
		return l.Type == authz.TypeWebhook || l.Type == authz.TypeABAC || l.Type == authz.TypeAlwaysAllow
	})
	return !slices.ContainsFunc(list[:at], isWebhook), !others
}
