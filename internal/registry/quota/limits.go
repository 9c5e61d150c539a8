package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/simulation"
)

// Limited is a resource that can be used only in namespaces with a quota for it.
type Limited struct {
	Resource schema.GroupResource
	// Contains selects the limited quota resources by substrings of their names.
	Contains []string
	// Scopes are the scopes whose objects need a quota.
	Scopes []corev1.ScopedResourceSelectorRequirement
}

// DeniedError is the reason for the denial of a write, with the messages of kube-apiserver.
type DeniedError string

func (r DeniedError) Error() string { return string(r) }

func denied(format string, args ...any) error { return DeniedError(fmt.Sprintf(format, args...)) }

// Write describes the write of an object in the hub version.
type Write struct {
	Resource    schema.GroupResource
	Subresource string
	Namespace   string
	// Object is nil for a deletion, Old is nil for a creation.
	Object, Old codec.Object
}

// writeUsage is the usage of an object before and after a write.
type writeUsage struct {
	*Write
	evaluator
	now         time.Time
	use, oldUse corev1.ResourceList // nil if Object or Old is nil
}

// measure returns the usage of an object before and after a write, or false if quotas ignore the resource.
func measure(ctx context.Context, w *Write) (writeUsage, bool) {
	e, ok := evaluatorOf(w.Resource)
	m := writeUsage{Write: w, evaluator: e, now: simulation.Now(ctx)}
	if !ok {
		return m, false
	}
	if w.Object != nil {
		m.use = e.usageOf(w.Object, m.now)
	}
	if w.Old != nil {
		m.oldUse = e.usageOf(w.Old, m.now)
	}
	return m, true
}

// change returns the changes of a quota's usage, or nil if the usage does not change.
func (m *writeUsage) change(quota *corev1.ResourceQuota) corev1.ResourceList {
	var change corev1.ResourceList
	is := m.Object != nil && m.inScopes(&quota.Spec, m.Object)
	was := m.Old != nil && m.inScopes(&quota.Spec, m.Old)
	if !is && !was {
		return nil
	}
	for name := range quota.Status.Hard {
		if !m.tracks(name) {
			continue
		}
		quantity := number(0)
		if is {
			quantity.Add(m.use[name])
		}
		if was {
			quantity.Sub(m.oldUse[name])
		}
		if quantity.IsZero() {
			continue
		}
		if change == nil {
			change = corev1.ResourceList{}
		}
		change[name] = quantity
	}
	return change
}

// exceeds returns an error if a change of the usage exceeds a limit of the quota.
func exceeds(quota *corev1.ResourceQuota, change corev1.ResourceList) error {
	status := &quota.Status
	var over []corev1.ResourceName
	for name, more := range change {
		if more.Sign() <= 0 {
			continue
		}
		sum := status.Used[name].DeepCopy()
		sum.Add(more)
		if sum.Cmp(status.Hard[name]) > 0 {
			over = append(over, name)
		}
	}
	if len(over) == 0 {
		return nil
	}
	slices.Sort(over)
	return denied("exceeded quota: %s, requested: %s, used: %s, limited: %s",
		quota.Name, formatQuantities(over, change), formatQuantities(over, status.Used), formatQuantities(over, status.Hard))
}

// formatQuantities formats the quantities of some resources of a list.
func formatQuantities(names []corev1.ResourceName, list corev1.ResourceList) string {
	var all []string
	for _, name := range names {
		if quantity, ok := list[name]; ok {
			all = append(all, string(name)+"="+quantity.String())
		}
	}
	return strings.Join(all, ",")
}

func joinNames(names []corev1.ResourceName) string {
	var all []string
	for _, name := range names {
		all = append(all, string(name))
	}
	return strings.Join(all, ",")
}

// check returns an error if the quotas of a namespace do not permit a write: a DeniedError, or an API error.
// The checks have the same order as in kube-apiserver.
func (m *writeUsage) check(quotas []*corev1.ResourceQuota, limited []Limited) error {
	var covered []corev1.ResourceName
	var scopes []corev1.ScopedResourceSelectorRequirement
	for _, quota := range quotas {
		scopes = append(scopes, m.scopesOf(selectors(&quota.Spec), m.Object)...)
		names, err := m.applies(quota)
		if err != nil {
			return err
		}
		covered = append(covered, names...)
	}
	if negative := negative(m.use); len(negative) > 0 {
		return denied("quota usage is negative for resource(s): %s", joinNames(negative))
	}
	if !m.grows() {
		return nil
	}
	if err := m.checkCovered(limited, covered, scopes); err != nil {
		return err
	}
	for _, quota := range quotas {
		if err := exceeds(quota, m.change(quota)); err != nil {
			return err
		}
	}
	return nil
}

// applies returns the resources of a quota that count the object, or nil if the object is not in the quota's
// scopes. The error lists required fields that the object does not set, or resources whose usage is unknown.
func (m *writeUsage) applies(quota *corev1.ResourceQuota) ([]corev1.ResourceName, error) {
	names := m.tracksAny(quota.Status.Hard)
	if len(names) == 0 || !m.inScopes(&quota.Spec, m.Object) {
		return nil, nil
	}
	if m.constraints != nil {
		if err := m.constraints(names, m.Object); err != nil {
			return nil, denied("failed quota: %s: %s", quota.Name, err)
		}
	}
	for _, name := range names {
		if _, ok := quota.Status.Used[name]; !ok {
			return nil, denied("status unknown for quota: %s, resources: %s", quota.Name, joinNames(names))
		}
	}
	return names, nil
}

// grows reports whether a write increases the usage of a resource.
func (m *writeUsage) grows() bool {
	for name, quantity := range m.use {
		if quantity.Cmp(m.oldUse[name]) > 0 {
			return true
		}
	}
	return false
}

// checkCovered rejects the use of limited resources without a quota.
func (m *writeUsage) checkCovered(limited []Limited, covered []corev1.ResourceName, scopes []corev1.ScopedResourceSelectorRequirement) error {
	missing := map[corev1.ResourceName]bool{}
	var outside []corev1.ScopedResourceSelectorRequirement
	for i := range limited {
		l := &limited[i]
		for _, s := range m.scopesOf(l.Scopes, m.Object) {
			if !slices.ContainsFunc(scopes, func(has corev1.ScopedResourceSelectorRequirement) bool { return has.ScopeName == s.ScopeName }) {
				outside = append(outside, s)
			}
		}
		if l.Resource != m.Resource {
			continue
		}
		for name, quantity := range m.use {
			part := func(part string) bool { return strings.Contains(string(name), part) }
			if quantity.Sign() > 0 && slices.ContainsFunc(l.Contains, part) && !slices.Contains(covered, name) {
				missing[name] = true
			}
		}
	}
	if len(missing) > 0 {
		return denied("insufficient quota to consume: %s", joinNames(slices.Sorted(maps.Keys(missing))))
	}
	if len(outside) > 0 {
		return uncovered(fmt.Sprintf("insufficient quota to match these scopes: %v", outside))
	}
	return nil
}

// uncovered returns the error for an object in a scope without a quota. As in kube-apiserver, the message
// does not contain the object, but kube-apiserver returns it with status 500.
func uncovered(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: message,
	}}
}

func negative(use corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name, quantity := range use {
		if quantity.Sign() < 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
