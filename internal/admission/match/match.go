// Package match matches requests against the rules, the match policy and the namespace and object selectors of
// webhooks and admission policies.
package match

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/rest"
)

// Matcher matches requests against the rules and selectors of a webhook, policy or binding. It is immutable and
// safe for concurrent use.
type Matcher struct {
	rules, excludes []rule
	equivalent      bool
	// The selectors are nil if they select everything.
	namespaces, objects labels.Selector
	// err is the error of an invalid selector. Match returns it only if the rules and the other selector
	// match.
	err error
}

// New returns a Matcher for resources, which it retains. A nil argument matches all requests, and so does an
// empty list of rules. Match returns the error of an invalid selector.
func New(resources *admissionregistrationv1.MatchResources) *Matcher {
	if resources == nil {
		return &Matcher{}
	}
	m := &Matcher{
		rules: rulesOf(resources.ResourceRules), excludes: rulesOf(resources.ExcludeResourceRules),
		equivalent: resources.MatchPolicy != nil && *resources.MatchPolicy == admissionregistrationv1.Equivalent,
	}
	m.namespaces = m.selector(resources.NamespaceSelector)
	m.objects = m.selector(resources.ObjectSelector)
	return m
}

// selector parses a label selector. It returns nil if the selector is absent, empty or invalid, and sets
// m.err if it is invalid.
func (m *Matcher) selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil // the configuration was stored without defaults
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		m.err = err
		return nil
	}
	if selector.Empty() {
		return nil
	}
	return selector
}

// Match returns the resource that the rules match, or nil if the request does not match. The result is the
// requested resource or, with the match policy Equivalent, possibly an equivalent resource; the caller must
// then convert the object to the version of the result. The error is an API error, for an unreadable namespace
// or an invalid selector. Match may read the namespace of the request and block until ctx ends.
func (m *Matcher) Match(ctx context.Context, s *Subject) (*rest.Resource, error) {
	inNamespace, err := m.matchNamespace(ctx, s)
	if err == nil && (!inNamespace || !m.matchObject(s)) {
		return nil, nil
	}
	if len(m.excludes) > 0 && m.find(m.excludes, &s.Request) != nil {
		return nil, nil
	}
	matched := s.Resource
	if len(m.rules) > 0 {
		matched = m.find(m.rules, &s.Request)
	}
	if matched == nil || err == nil && m.err == nil {
		return matched, nil
	}
	if err == nil {
		err = apierrors.NewInternalError(m.err)
	}
	return nil, err
}

// find returns the requested or equivalent resource that one of the rules matches, or nil.
func (m *Matcher) find(rules []rule, r *admission.Request) *rest.Resource {
	if slices.ContainsFunc(rules, func(rule rule) bool { return rule.matches(r, r.Resource) }) {
		return r.Resource
	}
	if !m.equivalent {
		return nil
	}
	equivalents := r.Equivalents()
	for i := range rules { // the order of the rules takes precedence over the order of versions
		for _, other := range equivalents {
			if other.GVR() != r.Resource.GVR() && rules[i].matches(r, other) {
				return other
			}
		}
	}
	return nil
}

// mayMatch reports whether the rules may match any request for the resource and operation of r.
func (m *Matcher) mayMatch(r *admission.Request) bool {
	if len(m.rules) == 0 {
		return true
	}
	matches := func(other *rest.Resource) bool {
		return slices.ContainsFunc(m.rules, func(rule rule) bool { return rule.matchesResource(r.Operation, other) })
	}
	return matches(r.Resource) || m.equivalent && slices.ContainsFunc(r.Equivalents(), matches)
}

// matchNamespace reports whether the namespace selector matches the namespace of a request. Requests without a
// namespace always match, except requests for Namespaces.
func (m *Matcher) matchNamespace(ctx context.Context, s *Subject) (bool, error) {
	if m.namespaces == nil || s.Request.Namespace == "" && !isNamespaces(s.Resource) {
		return true, nil
	}
	set, err := s.namespaceLabels(ctx)
	if err != nil {
		return false, err
	}
	return m.namespaces.Matches(labels.Set(set)), nil
}

// matchObject reports whether the object selector matches the old or the new object.
func (m *Matcher) matchObject(s *Subject) bool {
	if m.objects == nil {
		return true
	}
	return matchesLabels(m.objects, s.Object) || s.Old != nil && matchesLabels(m.objects, s.Old)
}

func matchesLabels(selector labels.Selector, obj runtime.Object) bool {
	o, ok := obj.(metav1.Object) // connect options are not objects
	return ok && selector.Matches(labels.Set(o.GetLabels()))
}
