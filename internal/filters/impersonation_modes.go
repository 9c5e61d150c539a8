package filters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/lru"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// impersonationModes contains the modes of impersonation, from the most to the least restricted.
// They are tried in this order, and the first mode that allows the impersonation applies. If no
// mode allows it, the first error is returned.
type impersonationModes struct {
	modes []*impersonationMode
	// last maps the name of an authenticated user to the index of the mode that last allowed an impersonation
	// by this user. This mode is tried first, because most users use only one mode. The order also determines
	// which error the client receives if no mode allows the impersonation.
	last *lru.Cache
}

// maxCachedImpersonators is the maximum number of entries of impersonationModes.last. An entry
// uses about 150 bytes.
const maxCachedImpersonators = 10_000

func newImpersonationModes(by authorizer.Authorizer, constrained bool) *impersonationModes {
	m := &impersonationModes{last: lru.New(maxCachedImpersonators)}
	if constrained {
		m.modes = []*impersonationMode{
			{authorizer: by, name: associatedNode, applies: isAssociatedNode},
			{authorizer: by, name: "arbitrary-node", applies: isArbitraryNode},
			{authorizer: by, name: "serviceaccount", applies: isServiceAccount},
			{authorizer: by, name: "user-info", applies: isOtherUser},
		}
	}
	m.modes = append(m.modes, &impersonationMode{authorizer: by})
	return m
}

// impersonate returns the impersonated user of a request, or an API error.
func (m *impersonationModes) impersonate(ctx context.Context, target *request.User, attributes *authorizer.Attributes) (*request.Impersonation, error) {
	if attributes.User == nil {
		return nil, apierrors.NewInternalError(errors.New("no User found in the context"))
	}
	first := -1
	if last, ok := m.last.Get(attributes.User.Name); ok {
		first = last.(int)
	}
	var firstErr error
	try := func(i int) *request.Impersonation {
		found, err := m.modes[i].impersonate(ctx, target, attributes)
		if firstErr == nil {
			firstErr = err
		}
		return found
	}
	if first >= 0 {
		if found := try(first); found != nil {
			return found, nil
		}
	}
	for i := range m.modes {
		if i == first {
			continue
		}
		if found := try(i); found != nil {
			m.last.Add(attributes.User.Name, i)
			return found, nil
		}
	}
	return nil, firstErr
}

// impersonationMode is a mode of impersonation. Each mode has its own verb.
type impersonationMode struct {
	authorizer authorizer.Authorizer
	// name is part of the verbs impersonate:NAME and impersonate-on:NAME:VERB. It is empty for the
	// plain verb impersonate.
	name string
	// applies reports whether the mode can be used for a user; nil means every user.
	applies func(target, requestor *request.User) bool
}

// associatedNode is the mode for service accounts of pods that act as their node.
const associatedNode = "associated-node"

func (m *impersonationMode) constrained() bool { return m.name != "" }

func (m *impersonationMode) verb() string {
	if m.constrained() {
		return "impersonate:" + m.name
	}
	return "impersonate"
}

// impersonate authorizes and returns the target user. It returns nil without an error if the mode
// does not apply to the user.
func (m *impersonationMode) impersonate(ctx context.Context, target *request.User, attributes *authorizer.Attributes) (*request.Impersonation, error) {
	found := &request.Impersonation{}
	if m.constrained() {
		if !m.applies(target, attributes.User) {
			return nil, nil
		}
		on := *attributes
		on.Verb = "impersonate-on:" + m.name + ":" + on.Verb
		if err := m.authorize(ctx, &on); err != nil {
			return nil, err
		}
		found.Constraint = m.verb()
	}
	user, err := m.authorizeUser(ctx, attributes.User, target)
	if err != nil {
		return nil, err
	}
	found.User = user
	return found, nil
}

// authorizeUser authorizes each attribute of the target user, and returns the user with the groups
// that its name implies.
func (m *impersonationMode) authorizeUser(ctx context.Context, requestor, target *request.User) (*request.User, error) {
	user := *target
	a := m.attributes(requestor, "users", target.Name)
	if node, ok := nodeOf(target.Name); ok && m.constrained() {
		a.Resource, a.Name = "nodes", node
		user.Groups = []string{request.GroupNodes}
	}
	if namespace, name, ok := request.ServiceAccountOf(target.Name); ok {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if len(target.Groups) == 0 {
			user.Groups = request.ServiceAccountGroups(namespace)
		}
	}
	if err := m.authorize(ctx, &a); err != nil {
		return nil, err
	}
	if target.UID != "" {
		uid := m.attributes(requestor, "uids", target.UID)
		if err := m.authorize(ctx, &uid); err != nil {
			return nil, err
		}
	}
	if err := m.authorizeGroups(ctx, requestor, target.Groups); err != nil {
		return nil, err
	}
	if err := m.authorizeExtra(ctx, requestor, target.Extra); err != nil {
		return nil, err
	}
	switch {
	case user.Name == request.Anonymous:
		ensureGroup(&user, request.GroupUnauthenticated)
	case !slices.Contains(user.Groups, request.GroupUnauthenticated):
		ensureGroup(&user, request.GroupAuthenticated)
	}
	return &user, nil
}

// wildcardThreshold is the minimum number of groups, or of extra values, for which a constrained
// mode first checks whether the user may impersonate any group or extra value ("*").
const wildcardThreshold = 4

func (m *impersonationMode) authorizeGroups(ctx context.Context, requestor *request.User, groups []string) error {
	a := m.attributes(requestor, "groups", "")
	if m.constrained() {
		if slices.Contains(groups, "") {
			return authorizer.Forbidden(&a, "impersonating the empty string group is not allowed")
		}
		if slices.Contains(groups, request.GroupMasters) {
			a.Name = request.GroupMasters
			return authorizer.Forbidden(&a, "impersonating the system:masters group is not allowed")
		}
		if len(groups) >= wildcardThreshold {
			a.Name = "*"
			if m.authorize(ctx, &a) == nil {
				return nil
			}
		}
	}
	for _, group := range groups {
		a.Name = group
		if err := m.authorize(ctx, &a); err != nil {
			return err
		}
	}
	return nil
}

func (m *impersonationMode) authorizeExtra(ctx context.Context, requestor *request.User, extra map[string][]string) error {
	a := m.attributes(requestor, "userextras", "")
	if m.constrained() {
		if err := checkExtra(extra); err != nil {
			return authorizer.Forbidden(&a, err.Error())
		}
		if countExtra(extra) >= wildcardThreshold {
			a.Subresource, a.Name = "*", "*"
			if m.authorize(ctx, &a) == nil {
				return nil
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		a.Subresource = key
		for _, value := range extra[key] {
			a.Name = value
			if err := m.authorize(ctx, &a); err != nil {
				return err
			}
		}
	}
	return nil
}

// countExtra returns the total number of values of all keys.
func countExtra(extra map[string][]string) int {
	n := 0
	for _, values := range extra {
		n += len(values)
	}
	return n
}

// checkExtra returns an error for keys and values that constrained modes do not support. The plain
// verb impersonate supports them.
func checkExtra(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if key != strings.ToLower(key) { // possible with percent-encoding
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		}
		if slices.Contains(extra[key], "") {
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// attributes returns the authorizer attributes for one property of the impersonated user, such as a
// group. For the plain verb, users, groups and service accounts are in the core group.
func (m *impersonationMode) attributes(requestor *request.User, resource, name string) authorizer.Attributes {
	a := authorizer.Attributes{
		User: requestor, Verb: m.verb(), APIGroup: authenticationv1.GroupName, APIVersion: "v1", Resource: resource, Name: name, ResourceRequest: true,
	}
	if !m.constrained() && (resource == "users" || resource == "groups") {
		a.APIGroup = ""
	}
	return a
}

// authorize returns an API error unless the attributes are allowed. As in kube-apiserver, a
// decision to allow takes precedence over an error.
func (m *impersonationMode) authorize(ctx context.Context, a *authorizer.Attributes) error {
	if m.name == associatedNode {
		a = anyNodeAttributes(a)
	}
	decision, reason, err := m.authorizer.Authorize(ctx, a)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	switch {
	case err != nil && reason != "":
		reason = err.Error() + ": " + reason
	case err != nil:
		reason = err.Error()
	}
	return authorizer.Forbidden(a, reason)
}

// anyNodeAttributes returns a copy of the attributes that does not depend on the pod of the
// requesting service account. For the verb impersonate:associated-node, the node name is "*". The
// values of extra are replaced with the list of keys, because the values differ between pods.
func anyNodeAttributes(a *authorizer.Attributes) *authorizer.Attributes {
	attributes, user := *a, *a.User
	user.Extra = map[string][]string{"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(a.User.Extra))}
	attributes.User = &user
	if a.Verb == "impersonate:"+associatedNode {
		attributes.Name = "*"
	}
	return &attributes
}

func isAssociatedNode(target, requestor *request.User) bool {
	node, ok := nodeOf(target.Name)
	if !ok || !hasOnlyName(target) {
		return false
	}
	_, _, ok = request.ServiceAccountOf(requestor.Name)
	own := requestor.Extra[request.ExtraNodeName]
	return ok && len(own) == 1 && own[0] == node
}

func isArbitraryNode(target, _ *request.User) bool {
	_, ok := nodeOf(target.Name)
	return ok && hasOnlyName(target)
}

func isServiceAccount(target, _ *request.User) bool {
	_, _, ok := request.ServiceAccountOf(target.Name)
	return ok && hasOnlyName(target)
}

// isOtherUser reports whether target is neither a node nor a service account.
func isOtherUser(target, _ *request.User) bool {
	_, node := nodeOf(target.Name)
	_, _, account := request.ServiceAccountOf(target.Name)
	return !node && !account
}

func hasOnlyName(user *request.User) bool {
	return user.UID == "" && len(user.Groups) == 0 && len(user.Extra) == 0
}

// nodeOf returns the node name in the name of a node user.
func nodeOf(user string) (string, bool) {
	node, ok := strings.CutPrefix(user, request.NodePrefix)
	return node, ok && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0
}

// ensureGroup adds a group to a user. It does not modify the array of user.Groups, which another
// user may share.
func ensureGroup(user *request.User, group string) {
	if !slices.Contains(user.Groups, group) {
		user.Groups = append(slices.Clip(user.Groups), group)
	}
}
