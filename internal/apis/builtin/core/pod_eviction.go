package core

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// podEviction declares the /eviction subresource, which deletes a pod if its disruption budget permits the
// deletion.
func podEviction() builtin.Subresource {
	version := builtin.VirtualVersion[policyv1.Eviction](policyv1.SchemeGroupVersion.WithKind("Eviction"))
	version.Aliases = []schema.GroupVersionKind{{Group: policyv1.GroupName, Version: "v1beta1", Kind: "Eviction"}}
	return builtin.Subresource{
		Name: "eviction", Version: version,
		Storage: func(env *builtin.Env, store *registry.Store) rest.Storage {
			return &evicter{env: env, pods: store}
		},
	}
}

type evicter struct {
	env  *builtin.Env
	pods *registry.Store
}

var _ rest.NamedCreater = (*evicter)(nil)

// evictionAttempts is the maximum number of attempts to evict a pod if the pod or its budget changes
// concurrently.
const evictionAttempts = 20

// CreateNamed implements rest.NamedCreater. The record is nil, because the response is a Status.
func (e *evicter) CreateNamed(ctx context.Context, name types.NamespacedName, obj codec.Object, validate rest.ValidateObjectFunc, options metav1.CreateOptions) (*codec.Record, error) {
	eviction := obj.(*policyv1.Eviction)
	if eviction.Name != name.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	deletion, err := deletionOf(eviction, options.DryRun)
	if err != nil {
		return nil, err
	}
	if validate != nil {
		if err := validate(ctx, eviction, nil); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		again, err := e.evict(ctx, name, deletion)
		if !again || attempt == evictionAttempts {
			return nil, err
		}
	}
}

// deletionOf returns the options for the deletion of an evicted pod. It returns an error if the dry-run
// options of the request and the eviction differ.
func deletionOf(eviction *policyv1.Eviction, dryRun []string) (metav1.DeleteOptions, error) {
	var deletion metav1.DeleteOptions
	if eviction.DeleteOptions != nil {
		deletion = *eviction.DeleteOptions
	}
	switch {
	case len(dryRun) == 0:
	case len(deletion.DryRun) == 0:
		deletion.DryRun = dryRun
	case !slices.Equal(deletion.DryRun, dryRun):
		return deletion, apierrors.NewBadRequest(fmt.Sprintf("Non-matching dry-run options in request and content: %v and %v", dryRun, deletion.DryRun))
	}
	return deletion, nil
}

// evict makes one attempt to evict a pod. again reports whether the attempt failed because the pod changed, in
// which case the caller should retry.
func (e *evicter) evict(ctx context.Context, name types.NamespacedName, deletion metav1.DeleteOptions) (again bool, err error) {
	pod, err := readStored[*corev1.Pod](ctx, e.pods, name)
	if err != nil {
		return false, err
	}
	if needsNoBudget(pod) {
		if pod.Status.Phase == corev1.PodPending {
			return e.removeUnchanged(ctx, pod, deletion) // the pod might have started since it was read
		}
		return false, e.remove(ctx, name, deletion)
	}
	budget, err := e.budgetOf(ctx, pod)
	if err != nil {
		return false, err
	}
	if budget != nil {
		if mayGoUnhealthy(pod, budget) {
			return e.removeUnchanged(ctx, pod, deletion)
		}
		if err := e.spend(ctx, budget, pod, len(deletion.DryRun) > 0); err != nil {
			return false, err
		}
	}
	return false, e.remove(ctx, name, deletion)
}

// needsNoBudget reports whether a pod can be evicted regardless of budgets, because it is not running yet, has
// ended, or is being deleted.
func needsNoBudget(pod *corev1.Pod) bool {
	switch pod.Status.Phase {
	case corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed:
		return true
	}
	return pod.DeletionTimestamp != nil
}

// mayGoUnhealthy reports whether a pod may be evicted without using a disruption of the budget, because the
// pod is not ready.
func mayGoUnhealthy(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) bool {
	if isTrue(podCondition(pod, corev1.PodReady)) {
		return false
	}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

// removeUnchanged deletes a pod unless it has changed since it was read. If it fails, again reports whether
// the caller should try again; it is false if a precondition of the client caused the failure.
func (e *evicter) removeUnchanged(ctx context.Context, pod *corev1.Pod, deletion metav1.DeleteOptions) (again bool, err error) {
	var preconditions metav1.Preconditions
	if deletion.Preconditions != nil {
		preconditions = *deletion.Preconditions
	}
	if preconditions.ResourceVersion == nil {
		version := pod.ResourceVersion
		preconditions.ResourceVersion = &version
		again = preconditions.UID == nil || *preconditions.UID == pod.UID
	}
	deletion.Preconditions = &preconditions
	err = e.remove(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, deletion)
	return again && apierrors.IsConflict(err), err
}

// remove sets a pod's DisruptionTarget condition and then deletes the pod.
func (e *evicter) remove(ctx context.Context, name types.NamespacedName, deletion metav1.DeleteOptions) error {
	if errs := metav1validation.ValidateDeleteOptions(&deletion); len(errs) > 0 {
		return apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", errs)
	}
	if len(deletion.DryRun) == 0 {
		marked, err := e.mark(ctx, name, deletion.Preconditions)
		if err != nil {
			return err
		}
		if p := deletion.Preconditions; p != nil && p.ResourceVersion != nil {
			preconditions, version := *p, fmt.Sprint(marked.Revision())
			preconditions.ResourceVersion = &version // setting the condition has changed the pod's version
			deletion.Preconditions = &preconditions
		}
	}
	_, _, err := e.pods.Delete(ctx, name, nil, deletion)
	return err
}

func (e *evicter) mark(ctx context.Context, name types.NamespacedName, preconditions *metav1.Preconditions) (*codec.Record, error) {
	record, _, err := rawPods(e.pods).Update(ctx, name, func(_ context.Context, current codec.Object) (codec.Object, error) {
		pod := current.DeepCopyObject().(*corev1.Pod)
		if err := checkEvicted(pod, preconditions); err != nil {
			return nil, err
		}
		setPodCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
		}, simulation.Now(ctx))
		return pod, nil
	}, rest.UpdateOptions{})
	return record, err
}

// checkEvicted returns an error if the preconditions do not match the pod. As in kube-apiserver, the error
// contains the kind instead of the resource.
func checkEvicted(pod *corev1.Pod, p *metav1.Preconditions) error {
	resource := schema.GroupResource{Resource: "Pod"}
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != "" && *p.UID != pod.UID:
		return apierrors.NewConflict(resource, pod.Name, fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, pod.UID))
	case p.ResourceVersion != nil && *p.ResourceVersion != "" && *p.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(resource, pod.Name, fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, pod.ResourceVersion))
	}
	return nil
}
