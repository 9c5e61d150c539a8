package core_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const overBudget = "Cannot evict pod as it would violate the pod's disruption budget."

func eviction(name string, options *metav1.DeleteOptions) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: named("ns", name), DeleteOptions: options}
}

// withBudget creates a running pod and a disruption budget with the given status. The pod is ready if ready is
// set.
func withBudget(t *testing.T, ready bool, status policyv1.PodDisruptionBudgetStatus) *api {
	t.Helper()
	a := newAPI(t)
	a.create("v1 pods", newPod("p", "n"))
	mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		if ready {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	})
	a.create("policy/v1 poddisruptionbudgets", budget("pdb"))
	mustUpdate(a, "policy/v1 poddisruptionbudgets/status", in("ns", "pdb"), func(pdb *policyv1.PodDisruptionBudget) { pdb.Status = status })
	return a
}

func budget(name string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: named("ns", name),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
	}
}

func wantCause(t *testing.T, err error, cause string, retryAfter int32) {
	t.Helper()
	wantMessage(t, err, overBudget)
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsTooManyRequests(err) {
		t.Fatalf("not a 429: %v", err)
	}
	details := status.Status().Details
	if len(details.Causes) != 1 || details.Causes[0].Message != cause || details.Causes[0].Type != policyv1.DisruptionBudgetCause {
		t.Errorf("causes are %+v, want %s", details.Causes, cause)
	}
	if details.RetryAfterSeconds != retryAfter {
		t.Errorf("retry after %d, want %d", details.RetryAfterSeconds, retryAfter)
	}
}

func TestEvictionWithoutBudget(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded} {
		a.create("v1 pods", newPod("p", "n"))
		mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) { pod.Status.Phase = phase })
		options := &metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))}
		wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", options), metav1.DryRunAll), "")
		a.get("v1 pods", in("ns", "p"))
		wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", options)), "")
		if _, err := a.tryGet("v1 pods", in("ns", "p")); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the pod still exists after the eviction: %v", phase, err)
		}
	}
}

func TestEvictionRejected(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	pod := a.create("v1 pods", newPod("p", "n"))
	stranger := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr(types.UID("x"))}}
	outdated := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr("1")}}
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("q", nil)), "name in URL does not match name in Eviction object")
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "none"), eviction("none", nil)), `pods "none" not found`)
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", stranger)), fmt.Sprintf(
		`Operation cannot be fulfilled on Pod "p": the UID in the precondition (x) does not match the UID in record (%s). The object might have been deleted and then recreated`, pod.GetUID()))
	if err := a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", outdated)); !apierrors.IsConflict(err) {
		t.Errorf("outdated version: %v", err)
	}
	mixed := &metav1.DeleteOptions{DryRun: []string{"None"}}
	if err := a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", mixed), metav1.DryRunAll); !apierrors.IsBadRequest(err) {
		t.Errorf("two kinds of dry run: %v", err)
	}
}

func TestEvictionWithinBudget(t *testing.T) {
	t.Parallel()
	a := withBudget(t, true, policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2})
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil), metav1.DryRunAll), "")
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil)), "")

	pdb := a.get("policy/v1 poddisruptionbudgets", in("ns", "pdb")).(*policyv1.PodDisruptionBudget)
	if at, ok := pdb.Status.DisruptedPods["p"]; pdb.Status.DisruptionsAllowed != 0 || !ok || at.IsZero() {
		t.Errorf("budget's status is %+v", pdb.Status)
	}
	if c := pdb.Status.Conditions; len(c) != 1 || c[0].Reason != policyv1.InsufficientPodsReason || c[0].ObservedGeneration != 1 {
		t.Errorf("budget's conditions are %+v", c)
	}
	pod := a.get("v1 pods", in("ns", "p")).(*corev1.Pod) // the pod still exists, because it has a grace period
	found := false
	for _, c := range pod.Status.Conditions {
		found = found || c.Type == corev1.DisruptionTarget && c.Reason == "EvictionByEvictionAPI" && c.Message == "Eviction API: evicting"
	}
	if !found || pod.DeletionTimestamp == nil {
		t.Errorf("pod deleted at %v with conditions %+v", pod.DeletionTimestamp, pod.Status.Conditions)
	}

	a.create("v1 pods", newPod("p2", "n"))
	mustUpdate(a, "v1 pods/status", in("ns", "p2"), func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodRunning} })
	mustUpdate(a, "policy/v1 poddisruptionbudgets/status", in("ns", "pdb"), func(pdb *policyv1.PodDisruptionBudget) { pdb.Status.CurrentHealthy = 0 })
	wantCause(t, a.createNamed("v1 pods/eviction", in("ns", "p2"), eviction("p2", nil)), "The disruption budget pdb does not allow evicting pods currently", 0)
}

func TestEvictionOverBudget(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		status     policyv1.PodDisruptionBudgetStatus
		cause      string
		retryAfter int32
	}{
		"new": {policyv1.PodDisruptionBudgetStatus{}, "The disruption budget pdb is still being processed by the server.", 10},
		"spent": {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 1},
			"The disruption budget pdb needs 1 healthy pods and has 1 currently", 0},
		"failed": {policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "why",
			LastTransitionTime: metav1.Now(),
		}}}, "The disruption budget pdb does not allow evicting pods currently because it failed sync: why", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := withBudget(t, true, test.status)
			for _, dryRun := range [][]string{nil, {metav1.DryRunAll}} {
				wantCause(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil), dryRun...), test.cause, test.retryAfter)
			}
			a.get("v1 pods", in("ns", "p"))
		})
	}
}

func TestEvictionOfUnhealthyPods(t *testing.T) {
	t.Parallel()
	healthy := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	a := withBudget(t, false, healthy)
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil)), "")

	unhealthy := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DesiredHealthy: 1}
	a = withBudget(t, false, unhealthy)
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil)), overBudget)
	mustUpdate(a, "policy/v1 poddisruptionbudgets", in("ns", "pdb"), func(pdb *policyv1.PodDisruptionBudget) {
		pdb.Spec.UnhealthyPodEvictionPolicy = ptr(policyv1.AlwaysAllow)
	})
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil)), "")
}

func TestEvictionWithTwoBudgets(t *testing.T) {
	t.Parallel()
	a := withBudget(t, true, policyv1.PodDisruptionBudgetStatus{})
	other := budget("of-others")
	other.Spec.Selector = nil // a nil selector matches no pod
	a.create("policy/v1 poddisruptionbudgets", other)
	wantMessage(t, a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil)), overBudget)
	a.create("policy/v1 poddisruptionbudgets", budget("pdb2"))
	err := a.createNamed("v1 pods/eviction", in("ns", "p"), eviction("p", nil))
	wantMessage(t, err, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	if !apierrors.IsConflict(err) {
		t.Errorf("%v, want a conflict, because the error is not caused by the server", err)
	}
}
