package controlplane

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters"
	"mainstay.dev/mainstay/internal/filters/authz"
	"mainstay.dev/mainstay/internal/request"
)

// views returns the limits of lists and watches over all namespaces by RBAC (--list-visible), or
// nil.
func (i *instance) views() filters.ViewFunc {
	if !i.options.ListVisible || i.rbac == nil {
		return nil
	}
	return func(_ context.Context, attributes *authorizer.Attributes) (request.Visibility, func()) {
		decides, alone := i.rbacDecides()
		if !decides || allowedOtherwise(attributes.User) || !i.limitable(attributes) {
			return nil, nil
		}
		view := i.rbac.View(attributes, alone)
		if view == nil {
			return nil, nil
		}
		return view, view.Close
	}
}

// allowedOtherwise reports whether a user may list for a reason other than bindings.
func allowedOtherwise(user *request.User) bool {
	_, isNode := user.Node()
	return isNode || user != nil && slices.Contains(user.Groups, request.GroupMasters)
}

// rbacDecides reports whether an RBAC permission is final, because no earlier authorizer can deny
// it. alone reports that no other authorizer allows lists over namespaces.
func (i *instance) rbacDecides() (decides, alone bool) {
	list := *i.authorizers()
	at := slices.IndexFunc(list, func(l authz.Listed) bool { return l.Type == authz.TypeRBAC })
	if at < 0 {
		return false, false
	}
	isWebhook := func(l authz.Listed) bool { return l.Type == authz.TypeWebhook }
	others := slices.ContainsFunc(list, func(l authz.Listed) bool {
		return l.Type == authz.TypeWebhook || l.Type == authz.TypeABAC || l.Type == authz.TypeAlwaysAllow
	})
	return !slices.ContainsFunc(list[:at], isWebhook), !others
}

// limitable reports whether the request is for namespaced objects of this control plane. Aggregated
// servers do not support limits.
func (i *instance) limitable(attributes *authorizer.Attributes) bool {
	gv := schema.GroupVersion{Group: attributes.APIGroup, Version: attributes.APIVersion}
	if i.aggregated.Handler(gv) != nil {
		return false
	}
	resource := i.catalog.Find(gv, attributes.Resource, "")
	return resource != nil && resource.Namespaced
}
