package core

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
)

// maxDisruptedPods is the maximum number of evictions that are listed in a budget's status, that is, evictions
// that the controller has not processed yet.
const maxDisruptedPods = 2000

func budgetResource() schema.GroupResource { return policyv1.Resource("poddisruptionbudgets") }

// budgetOf returns the disruption budget of a pod, or nil if the pod has none. It returns an error if the pod
// has more than one budget, because an eviction can update only one of them.
func (e *evicter) budgetOf(ctx context.Context, pod *corev1.Pod) (*policyv1.PodDisruptionBudget, error) {
	store := e.env.Store(budgetResource())
	if store == nil {
		return nil, nil // budgets are not served
	}
	list, err := store.List(ctx, pod.Namespace, rest.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found *policyv1.PodDisruptionBudget
	for record, err := range list.Items {
		if err != nil {
			return nil, err
		}
		budget, err := codec.SharedAs[*policyv1.PodDisruptionBudget](record)
		if err != nil {
			return nil, err
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue // an invalid selector matches no pod
		}
		if found != nil {
			// kube-apiserver responds with 500 in this case, although the client's objects are the cause.
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
				Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
			}}
		}
		found = budget
	}
	return found, nil
}

// spend uses one of the disruptions that a budget allows and records the pod in the budget's status, so that
// the controller no longer counts the pod as healthy.
func (e *evicter) spend(ctx context.Context, budget *policyv1.PodDisruptionBudget, pod *corev1.Pod, dryRun bool) error {
	if dryRun {
		return checkBudget(budget)
	}
	store := e.env.Store(budgetResource())
	part := &registry.SubresourceStore{Store: store, Subresource: "status", Strategy: &registry.Strategy{Namespaced: true}}
	name := types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name}
	_, _, err := part.Update(ctx, name, func(_ context.Context, current codec.Object) (codec.Object, error) {
		budget := current.DeepCopyObject().(*policyv1.PodDisruptionBudget)
		if err := checkBudget(budget); err != nil {
			return nil, err
		}
		budget.Status.DisruptionsAllowed--
		if budget.Status.DisruptionsAllowed == 0 {
			meta.SetStatusCondition(&budget.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
				Reason: policyv1.InsufficientPodsReason, ObservedGeneration: budget.Status.ObservedGeneration,
			})
		}
		if budget.Status.DisruptedPods == nil {
			budget.Status.DisruptedPods = map[string]metav1.Time{}
		}
		budget.Status.DisruptedPods[pod.Name] = metav1.NewTime(simulation.Now(ctx).Truncate(time.Second))
		return budget, nil
	}, rest.UpdateOptions{})
	return err
}

// checkBudget returns an error if a budget currently allows no disruption.
func checkBudget(budget *policyv1.PodDisruptionBudget) error {
	status := &budget.Status
	resource := policyv1.Resource("poddisruptionbudget")
	switch {
	case status.ObservedGeneration < budget.Generation:
		const seconds = 10 // by then, the controller will probably have processed the budget
		return overBudget(seconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget.Name))
	case status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(resource, budget.Name, fmt.Errorf("pdb disruptions allowed is negative"))
	case len(status.DisruptedPods) > maxDisruptedPods:
		return apierrors.NewForbidden(resource, budget.Name, fmt.Errorf("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case status.DisruptionsAllowed == 0:
		return overBudget(0, exhausted(budget))
	}
	return nil
}

func exhausted(budget *policyv1.PodDisruptionBudget) string {
	condition := meta.FindStatusCondition(budget.Status.Conditions, policyv1.DisruptionAllowedCondition)
	switch {
	case condition == nil || condition.Status != metav1.ConditionFalse:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy)
	case condition.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %v", budget.Name, condition.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", budget.Name)
}

func overBudget(retryAfterSeconds int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfterSeconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
