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

// impersonationModes are the ways in which one user may be allowed to impersonate
// another one, in the order in which they are tried: those that allow least first.
// What allows is one of them; where none does, the answer is the first refusal.
type impersonationModes struct {
	modes []*impersonationMode
	// last is the index of the mode that last allowed a user, by the user's name. It
	// is tried first: most users use one mode only. Which of two refusals a client
	// sees follows from it.
	last *lru.Cache
}

// rememberedImpersonators bounds impersonationModes.last; an entry is some 150 bytes.
const rememberedImpersonators = 10_000

func newImpersonationModes(by authorizer.Authorizer, constrained bool) *impersonationModes {
	m := &impersonationModes{last: lru.New(rememberedImpersonators)}
	if constrained {
		m.modes = []*impersonationMode{
			{by: by, name: associatedNode, fits: isAssociatedNode},
			{by: by, name: "arbitrary-node", fits: isArbitraryNode},
			{by: by, name: "serviceaccount", fits: isServiceAccountAlone},
			{by: by, name: "user-info", fits: isOtherUser},
		}
	}
	m.modes = append(m.modes, &impersonationMode{by: by})
	return m
}

// impersonate returns the user that a request is made as, or an API error.
func (m *impersonationModes) impersonate(ctx context.Context, wanted *request.User, attributes *authorizer.Attributes) (*request.Impersonation, error) {
	if attributes.User == nil {
		return nil, apierrors.NewInternalError(errors.New("no User found in the context"))
	}
	first := -1
	if last, ok := m.last.Get(attributes.User.Name); ok {
		first = last.(int)
	}
	var refusal error
	try := func(i int) *request.Impersonation {
		found, err := m.modes[i].impersonate(ctx, wanted, attributes)
		if refusal == nil {
			refusal = err
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
	return nil, refusal
}

// impersonationMode is one way to be allowed to impersonate.
type impersonationMode struct {
	by authorizer.Authorizer
	// name is that in the verbs impersonate:NAME and impersonate-on:NAME:VERB; empty
	// for the plain verb impersonate.
	name string
	// fits reports whether the mode is for this user; nil: for every user.
	fits func(wanted, requestor *request.User) bool
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

// impersonate returns the user that the request is made as; nil without an error
// where the mode is for other users.
func (m *impersonationMode) impersonate(ctx context.Context, wanted *request.User, attributes *authorizer.Attributes) (*request.Impersonation, error) {
	found := &request.Impersonation{}
	if m.constrained() {
		if !m.fits(wanted, attributes.User) {
			return nil, nil
		}
		on := *attributes
		on.Verb = "impersonate-on:" + m.name + ":" + on.Verb
		if err := m.authorize(ctx, &on); err != nil {
			return nil, err
		}
		found.Constraint = m.verb()
	}
	user, err := m.authorizeUser(ctx, attributes.User, wanted)
	if err != nil {
		return nil, err
	}
	found.User = user
	return found, nil
}

// authorizeUser asks for each part of a user, and adds the groups it has by its name.
func (m *impersonationMode) authorizeUser(ctx context.Context, requestor, wanted *request.User) (*request.User, error) {
	user := *wanted
	a := m.attributes(requestor, "users", wanted.Name)
	if node, ok := nodeOf(wanted.Name); ok && m.constrained() {
		a.Resource, a.Name = "nodes", node
		user.Groups = []string{request.GroupNodes}
	}
	if namespace, name, ok := request.ServiceAccountOf(wanted.Name); ok {
		a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		if len(wanted.Groups) == 0 {
			user.Groups = request.ServiceAccountGroups(namespace)
		}
	}
	if err := m.authorize(ctx, &a); err != nil {
		return nil, err
	}
	if wanted.UID != "" {
		uid := m.attributes(requestor, "uids", wanted.UID)
		if err := m.authorize(ctx, &uid); err != nil {
			return nil, err
		}
	}
	if err := m.authorizeGroups(ctx, requestor, wanted.Groups); err != nil {
		return nil, err
	}
	if err := m.authorizeExtra(ctx, requestor, wanted.Extra); err != nil {
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

// manyChecks is from how many groups, or values of extra, on a constrained mode asks
// for all of them by "*" first.
const manyChecks = 4

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
		if len(groups) >= manyChecks {
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
		if countExtra(extra) >= manyChecks {
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

// countExtra counts values; each key has at least one.
func countExtra(extra map[string][]string) int {
	n := 0
	for _, values := range extra {
		n += len(values)
	}
	return n
}

// checkExtra refuses what constrained modes do not take, although the plain verb does.
func checkExtra(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if key != strings.ToLower(key) { // by an escaped upper-case letter
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		}
		if slices.Contains(extra[key], "") {
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// attributes are those of the question for one part of a user. Users, groups and
// service accounts are of the core group where the plain verb is asked for.
func (m *impersonationMode) attributes(requestor *request.User, resource, name string) authorizer.Attributes {
	a := authorizer.Attributes{
		User: requestor, Verb: m.verb(), APIGroup: authenticationv1.GroupName, APIVersion: "v1", Resource: resource, Name: name, ResourceRequest: true,
	}
	if !m.constrained() && (resource == "users" || resource == "groups") {
		a.APIGroup = ""
	}
	return a
}

// authorize returns an API error unless the attributes are allowed. An authorizer
// that allows in spite of an error is believed, as by kube-apiserver.
func (m *impersonationMode) authorize(ctx context.Context, a *authorizer.Attributes) error {
	if m.name == associatedNode {
		a = ofAnyNode(a)
	}
	decision, reason, err := m.by.Authorize(ctx, a)
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

// ofAnyNode returns the question whether a service account may impersonate the node
// of its pod, whichever that is: rights to it are given for the name "*". The values
// of extra, which differ from pod to pod, are no part of the question.
func ofAnyNode(a *authorizer.Attributes) *authorizer.Attributes {
	asked, user := *a, *a.User
	user.Extra = map[string][]string{"authentication.kubernetes.io/associated-node-keys": slices.Sorted(maps.Keys(a.User.Extra))}
	asked.User = &user
	if a.Verb == "impersonate:"+associatedNode {
		asked.Name = "*"
	}
	return &asked
}

func isAssociatedNode(wanted, requestor *request.User) bool {
	node, ok := nodeOf(wanted.Name)
	if !ok || !nameAlone(wanted) {
		return false
	}
	_, _, ok = request.ServiceAccountOf(requestor.Name)
	own := requestor.Extra[request.ExtraNodeName]
	return ok && len(own) == 1 && own[0] == node
}

func isArbitraryNode(wanted, _ *request.User) bool {
	_, ok := nodeOf(wanted.Name)
	return ok && nameAlone(wanted)
}

func isServiceAccountAlone(wanted, _ *request.User) bool {
	_, _, ok := request.ServiceAccountOf(wanted.Name)
	return ok && nameAlone(wanted)
}

// isOtherUser: a user that is neither a node nor a service account.
func isOtherUser(wanted, _ *request.User) bool {
	_, node := nodeOf(wanted.Name)
	_, _, account := request.ServiceAccountOf(wanted.Name)
	return !node && !account
}

func nameAlone(user *request.User) bool {
	return user.UID == "" && len(user.Groups) == 0 && len(user.Extra) == 0
}

// nodeOf returns which node a user name is that of.
func nodeOf(user string) (string, bool) {
	node, ok := strings.CutPrefix(user, request.NodePrefix)
	return node, ok && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0
}

// ensureGroup adds a group to a user whose groups belong to another one.
func ensureGroup(user *request.User, group string) {
	if !slices.Contains(user.Groups, group) {
		user.Groups = append(slices.Clip(user.Groups), group)
	}
}
