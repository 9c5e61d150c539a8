// Package abac authorizes requests with a policy file. The file is not reloaded.
package abac

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/request"
)

// Policies are the policies of a file. A request is allowed if at least one policy matches.
// Policies are immutable and safe for concurrent use.
type Policies []policy

// policy is the spec of a Policy of abac.authorization.kubernetes.io/v1beta1. "*" matches all
// values.
type policy struct {
	User            string `json:"user,omitempty"`
	Group           string `json:"group,omitempty"`
	ReadOnly        bool   `json:"readonly,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	NonResourcePath string `json:"nonResourcePath,omitempty"`
}

const all = "*"

// Parse parses a policy file. Each line is a policy in JSON, a comment that begins with #, or
// empty. An error contains the line number.
func Parse(data []byte) (Policies, error) {
	policies := Policies{} // an empty file allows no request
	number := 0
	for line := range bytes.Lines(data) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		p, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		policies = append(policies, *p)
	}
	return policies, nil
}

func parseLine(line []byte) (*policy, error) {
	var read struct {
		APIVersion string  `json:"apiVersion"`
		Kind       string  `json:"kind"`
		Spec       *policy `json:"spec"`
		policy             // the fields of a line without apiVersion and kind
	}
	if err := json.Unmarshal(line, &read); err != nil {
		return nil, err
	}
	var p *policy
	switch {
	case read.APIVersion == "" && read.Kind == "":
		p = fromV0(read.policy)
	case read.APIVersion != "abac.authorization.kubernetes.io/v1beta1" || read.Kind != "Policy":
		return nil, fmt.Errorf("it is a %s of %s; it must be a Policy of abac.authorization.kubernetes.io/v1beta1", read.Kind, read.APIVersion)
	case read.Spec == nil:
		return nil, errors.New("spec is missing")
	default:
		p = read.Spec
	}
	if p.User == all || p.Group == all {
		p.User, p.Group = "", request.GroupAuthenticated
	}
	return p, nil
}

// fromV0 converts a line without apiVersion and kind. In this format, omitted fields match all
// values.
func fromV0(p policy) *policy {
	if p.User == "" && p.Group == "" {
		p.Group = request.GroupAuthenticated
	}
	p.APIGroup, p.NonResourcePath = all, ""
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = all
	}
	if p.Namespace == "" {
		p.Namespace = all
	}
	if p.Resource == "" {
		p.Resource = all
	}
	return &p
}

// Authorize implements authorizer.Authorizer. It returns DecisionAllow or DecisionNoOpinion, and no
// error.
func (p Policies) Authorize(_ context.Context, a *authorizer.Attributes) (authorizer.Decision, string, error) {
	for i := range p {
		if p[i].allows(a) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "No policy matched.", nil
}

func (p *policy) allows(a *authorizer.Attributes) bool {
	return p.matchesUser(a.User) && (!p.ReadOnly || slices.Contains(readVerbs(), a.Verb)) && (p.matchesResource(a) || p.matchesPath(a))
}

func readVerbs() []string { return []string{"get", "list", "watch"} }

// matchesUser reports whether the policy applies to a user. A policy with neither a user nor a
// group applies to nobody.
func (p *policy) matchesUser(user *request.User) bool {
	if user == nil || p.User == "" && p.Group == "" {
		return false
	}
	return (p.User == "" || p.User == user.Name) && (p.Group == "" || slices.Contains(user.Groups, p.Group))
}

func (p *policy) matchesResource(a *authorizer.Attributes) bool {
	matches := func(pattern, value string) bool { return pattern == all || pattern == value }
	return a.ResourceRequest && matches(p.Namespace, a.Namespace) && matches(p.Resource, a.Resource) && matches(p.APIGroup, a.APIGroup)
}

func (p *policy) matchesPath(a *authorizer.Attributes) bool {
	prefix, ok := strings.CutSuffix(p.NonResourcePath, all)
	return !a.ResourceRequest && (p.NonResourcePath == a.Path || ok && strings.HasPrefix(a.Path, prefix))
}

// Rules returns, in the form of RBAC rules, the policies that apply to a user in a namespace. The
// result is a new slice.
func (p Policies) Rules(user *request.User, namespace string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for i := range p {
		line := &p[i]
		if !line.matchesUser(user) || line.Namespace != all && line.Namespace != namespace {
			continue
		}
		verbs := []string{all}
		if line.ReadOnly {
			verbs = readVerbs()
		}
		if line.Resource != "" {
			rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{line.APIGroup}, Resources: []string{line.Resource}})
		}
		if line.NonResourcePath != "" {
			rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: []string{line.NonResourcePath}})
		}
	}
	return rules
}
