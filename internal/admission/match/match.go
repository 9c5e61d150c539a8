// Package match matches requests by rules, match policy, and selectors of namespaces and objects,
// for webhooks and admission policies.
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

// Matcher matches requests. It is immutable.
type Matcher struct {
	rules, excludes []rule
	equivalent      bool
	// Selectors are nil where they select everything.
	namespaces, objects labels.Selector
	// err is the error of an invalid selector. It is reported only if the selector is evaluated.
	err error
}

// New returns the matcher of resources, which it retains: nil, and omitted rules, match all
// requests.
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

func (m *Matcher) selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil // stored by a server that did not fill it in
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

// Match returns the resource as which a request is to be shown: as requested, or,
// with match policy Equivalent, the one that a rule names. It is nil where the
// request is not meant. The error is an API error.
func (m *Matcher) Match(ctx context.Context, s *Subject) (*rest.Resource, error) {
	inNamespace, err := m.matchNamespace(ctx, s)
	if err == nil && (!inNamespace || !m.matchObject(s)) {
		return nil, nil
	}
	if len(m.excludes) > 0 && m.find(m.excludes, &s.Request) != nil {
		return nil, nil
	}
	shown := s.Resource
	if len(m.rules) > 0 {
		shown = m.find(m.rules, &s.Request)
	}
	if shown == nil || err == nil && m.err == nil {
		return shown, nil
	}
	if err == nil {
		err = apierrors.NewInternalError(m.err)
	}
	return nil, err
}

// find returns the resource that matches one of the rules, or nil.
func (m *Matcher) find(rules []rule, r *admission.Request) *rest.Resource {
	if slices.ContainsFunc(rules, func(rule rule) bool { return rule.matches(r, r.Resource) }) {
		return r.Resource
	}
	if !m.equivalent {
		return nil
	}
	equivalents := r.Equivalents()
	for i := range rules { // an earlier rule decides, not an earlier version
		for _, other := range equivalents {
			if other.GVR() != r.Resource.GVR() && rules[i].matches(r, other) {
				return other
			}
		}
	}
	return nil
}

// mayMatch reports whether any request for a resource can be meant.
func (m *Matcher) mayMatch(r *admission.Request) bool {
	if len(m.rules) == 0 {
		return true
	}
	named := func(other *rest.Resource) bool {
		return slices.ContainsFunc(m.rules, func(rule rule) bool { return rule.names(r.Operation, other) })
	}
	return named(r.Resource) || m.equivalent && slices.ContainsFunc(r.Equivalents(), named)
}

// matchNamespace reports whether the namespace of a request is selected. Requests without a
// namespace always match.
func (m *Matcher) matchNamespace(ctx context.Context, s *Subject) (bool, error) {
	if m.namespaces == nil || s.Request.Namespace == "" && !isOfNamespaces(s.Resource) {
		return true, nil
	}
	set, err := s.namespaceLabels(ctx)
	if err != nil {
		return false, err
	}
	return m.namespaces.Matches(labels.Set(set)), nil
}

// matchObject reports whether the object, as it was or as it is to be, is
// selected.
func (m *Matcher) matchObject(s *Subject) bool {
	if m.objects == nil {
		return true
	}
	return selects(m.objects, s.Object) || s.Old != nil && selects(m.objects, s.Old)
}

func selects(selector labels.Selector, obj runtime.Object) bool {
	o, ok := obj.(metav1.Object) // connect options are not objects
	return ok && selector.Matches(labels.Set(o.GetLabels()))
}
