package lifecycle

import (
	"testing"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

const uid = "00000000-0000-4000-8000-000000000001"

func request() *lifecyclev1alpha1.EvictionRequest {
	return &lifecyclev1alpha1.EvictionRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "a"},
		Spec: lifecyclev1alpha1.EvictionRequestSpec{
			Target:    lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: "p", UID: uid}},
			Requester: "example.com/drainer", Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
		},
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[lifecyclev1alpha1.EvictionRequest](validateRequest)
	rules.Create(t, request, []validationtest.Case[lifecyclev1alpha1.EvictionRequest]{
		{Name: "no target", Change: func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Target.Pod = nil }, Want: []string{"spec.target: Invalid value"}},
		{Name: "no requester", Change: func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Requester = "" }, Want: []string{"spec.requester: Required value"}},
		{Name: "a reserved requester", Change: func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Requester = "a.k8s.io/b" }, Want: []string{"spec.requester: Invalid value: \"a.k8s.io/b\": domain names *.k8s.io, *.kubernetes.io are reserved"}},
		{Name: "an invalid UID", Change: func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Target.Pod.UID = "x" }, Want: []string{"spec.target.pod.uid: Invalid value"}},
		{Name: "an unknown intent", Change: func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Intent = "x" }, Want: []string{"spec.intent: Unsupported value"}},
	})
	rules.Update(t, request, []validationtest.Case[lifecyclev1alpha1.EvictionRequest]{
		{Name: "withdrawn", Change: func(r *lifecyclev1alpha1.EvictionRequest) {
			r.Spec.Intent = lifecyclev1alpha1.EvictionRequestIntentWithdrawn
		}},
		{Name: "another target", Change: func(r *lifecyclev1alpha1.EvictionRequest) { r.Spec.Target.Pod.Name = "q" }, Want: []string{"spec.target: Invalid value"}},
	})
}

func before(d time.Duration) *metav1.Time { return new(metav1.NewTime(time.Now().Add(-d))) }

// responding returns an eviction whose first of two responders is active.
func responding() *lifecyclev1alpha1.Eviction {
	return &lifecyclev1alpha1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "a"},
		Spec:       lifecyclev1alpha1.EvictionSpec{Target: lifecyclev1alpha1.EvictionTarget{Pod: &lifecyclev1alpha1.EvictionPodReference{Name: "p", UID: uid}}},
		Status: lifecyclev1alpha1.EvictionStatus{
			ObservedGeneration: new(int64(2)),
			TargetResponders: []lifecyclev1alpha1.TargetResponder{
				{Name: "a.com/one", Priority: new(int32(2000)), State: lifecyclev1alpha1.ResponderStateActive},
				{Name: "a.com/two", Priority: new(int32(1000)), State: lifecyclev1alpha1.ResponderStateInactive},
			},
			Responders: []lifecyclev1alpha1.ResponderStatus{{Name: "a.com/one", StartTime: before(time.Hour)}, {Name: "a.com/two"}},
		},
	}
}

// TestResponderOrder checks the order of responders, and that final states do not change.
func TestResponderOrder(t *testing.T) {
	t.Parallel()
	start := responding()
	failed := []metav1.Condition{{Type: "Failed", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: *before(0)}}
	stored := func() *lifecyclev1alpha1.Eviction { return start.DeepCopy() }
	status := func(change func(*lifecyclev1alpha1.EvictionStatus)) func(*lifecyclev1alpha1.Eviction) {
		return func(e *lifecyclev1alpha1.Eviction) { change(&e.Status) }
	}
	rules := validationtest.Rules[lifecyclev1alpha1.Eviction](validateEvictionStatus)
	rules.Update(t, stored, []validationtest.Case[lifecyclev1alpha1.Eviction]{
		{Name: "a heartbeat", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) { s.Responders[0].HeartbeatTime = before(0) })},
		{Name: "an old heartbeat", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) { s.Responders[0].HeartbeatTime = before(time.Minute) }),
			Want: []string{"status.responders[0].heartbeatTime: Invalid value"}},
		{Name: "the second responder is active after the first one stopped its heartbeats", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) {
			s.TargetResponders[0].State, s.TargetResponders[1].State = lifecyclev1alpha1.ResponderStateInterrupted, lifecyclev1alpha1.ResponderStateActive
			s.Responders[1].StartTime = before(0)
		})},
		{Name: "the second responder is active although the first one sends heartbeats", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) {
			s.TargetResponders[0].State, s.TargetResponders[1].State = lifecyclev1alpha1.ResponderStateInterrupted, lifecyclev1alpha1.ResponderStateActive
			s.Responders[0].HeartbeatTime, s.Responders[1].StartTime = before(0), before(0)
		}), Want: []string{"status.targetResponders[0].state: Forbidden: must stay Active", "status.responders[0]: Invalid value"}},
		{Name: "two active responders", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) {
			s.TargetResponders[1].State, s.Responders[1].StartTime = lifecyclev1alpha1.ResponderStateActive, before(0)
		}), Want: []string{"status.targetResponders[1].state: Invalid value: \"Active\": must be one of: Inactive, because the previously active has not finished processing", "status.targetResponders[1].state: Forbidden: must stay Active"}},
		{Name: "a responder is removed", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) {
			s.TargetResponders, s.Responders = s.TargetResponders[:1], s.Responders[:1]
		}), Want: []string{"status.targetResponders: Invalid value"}},
		{Name: "different lists", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) { s.Responders[0].Name = "a.com/x" }),
			Want: []string{"status.targetResponders[0]: Invalid value", "status.responders: Invalid value"}},
		{Name: "an earlier generation", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) { s.ObservedGeneration = new(int64(1)) }),
			Want: []string{"status.observedGeneration: Invalid value: 1: may not be decreased from 2"}},
		{Name: "expected in the past", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) {
			s.Responders[0].ExpectedCompletionTime = before(time.Minute)
		}),
			Want: []string{"status.responders[0].expectedCompletionTime: Invalid value"}},
		{Name: "completed before the start", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) { s.Responders[0].CompletionTime = before(2 * time.Hour) }),
			Want: []string{"must occur after status.responders[0].startTime"}},
	})
	rules.Update(t, stored, []validationtest.Case[lifecyclev1alpha1.Eviction]{
		{Name: "failed while a responder is active", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) { s.Conditions = failed }),
			Want: []string{"status.targetResponders[0].state: Invalid value: \"Active\": must be one of: Canceled, Completed, Interrupted, because the eviction request has finished processing"}},
	})
	start.Status.TargetResponders[0].State = lifecyclev1alpha1.ResponderStateInterrupted
	start.Status.Conditions = failed
	rules.Update(t, stored, []validationtest.Case[lifecyclev1alpha1.Eviction]{
		{Name: "the final condition is removed", Change: status(func(s *lifecyclev1alpha1.EvictionStatus) {
			s.Conditions = nil
		}), Want: []string{"status.conditions: Invalid value: null: Failed condition status cannot be reverted"}},
	})
}
