package quota

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// ListFunc lists the objects of a resource in a namespace at the newest revision. It returns nil
// without an error if the resource does not exist. It may block.
type ListFunc func(ctx context.Context, resource schema.GroupResource, namespace string) (*rest.List, error)

// Recount returns the usage of a quota, computed from the objects of its namespace. It blocks for one list
// per resource. The caller owns the result; an error of list is wrapped. Writes during the recount may or may
// not be included.
func Recount(ctx context.Context, quota *corev1.ResourceQuota, list ListFunc) (corev1.ResourceList, error) {
	used := corev1.ResourceList{}
	for name := range quota.Spec.Hard {
		used[name] = number(0)
	}
	for _, resource := range CountedResources(quota.Spec.Hard) {
		if err := recount(ctx, used, quota, resource, list); err != nil {
			return nil, fmt.Errorf("count %s: %w", resource, err)
		}
	}
	return used, nil
}

func recount(ctx context.Context, used corev1.ResourceList, quota *corev1.ResourceQuota, resource schema.GroupResource, list ListFunc) error {
	e, ok := evaluatorOf(resource)
	if !ok || e.scope == nil && len(selectors(&quota.Spec)) > 0 {
		return nil
	}
	objects, err := list(ctx, resource, quota.Namespace)
	if err != nil || objects == nil {
		return err
	}
	now := simulation.Now(ctx)
	for record, err := range objects.Items {
		if err != nil {
			return err
		}
		if err := e.addTo(used, quota, record, now); err != nil {
			return err
		}
	}
	return nil
}

// addTo adds the usage of an object.
func (e *evaluator) addTo(used corev1.ResourceList, quota *corev1.ResourceQuota, record *codec.Record, now time.Time) error {
	var obj codec.Object
	if e.readsContents() { // to count other objects, decoding is not necessary
		var err error
		if obj, err = record.Shared(); err != nil {
			return err
		}
		if !e.inScopes(&quota.Spec, obj) {
			return nil
		}
	}
	for name, quantity := range e.usageOf(obj, now) {
		if _, ok := used[name]; ok {
			add(used, name, quantity)
		}
	}
	return nil
}

// DependsOnContents reports whether the usage of a resource depends on the contents of its objects, not only
// on their number.
func DependsOnContents(resource schema.GroupResource) bool {
	e, _ := evaluatorOf(resource)
	return e.readsContents()
}

// Affected returns the quotas whose usage a write changes. The result does not depend on charges.
func Affected(ctx context.Context, w *Write, quotas []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	m, ok := measure(ctx, w)
	if !ok {
		return nil
	}
	var affected []*corev1.ResourceQuota
	for _, quota := range quotas {
		if m.change(quota) != nil {
			affected = append(affected, quota)
		}
	}
	return affected
}

// IsOverduePod reports whether an object is a pod whose deletion deadline has passed. A quota may still
// contain the usage of the pod from before its deadline.
func IsOverduePod(ctx context.Context, obj codec.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && isOverdue(pod, simulation.Now(ctx))
}

// Counts reports whether a quota of a namespace limits the objects of a resource.
func (l *Ledger) Counts(namespace string, resource schema.GroupResource) bool {
	if len(l.records(namespace)) == 0 {
		return false
	}
	e, ok := evaluatorOf(resource)
	if !ok {
		return false
	}
	for _, quota := range l.Quotas(namespace) {
		if len(e.tracksAny(quota.Spec.Hard)) > 0 {
			return true
		}
	}
	return false
}
