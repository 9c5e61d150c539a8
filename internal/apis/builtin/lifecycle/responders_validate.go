package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/simulation"
)

const (
	// heartbeatDeadline is the maximum time between two heartbeats of a responder.
	heartbeatDeadline = 20 * time.Minute
	// skew is the maximum tolerated difference between the clocks of the server and of a client.
	skew = 30 * time.Second
	// longestExpectation is the maximum time from now until the expected completion time of a responder.
	longestExpectation = 10 * 365 * 24 * time.Hour
	// maxResponders is the maximum number of responders: the responders of a pod and the default responder.
	// Longer lists are rejected by a +k8s:maxItems marker.
	maxResponders = 11
)

// Responders are active one after another, in the order of the list. Each responder is Inactive, then Active,
// then Interrupted, Canceled or Completed; then the next responder becomes Active. The controller writes the
// active responder to targetResponders. Responders write their progress to status.responders and must not be
// able to skip other responders.

// final returns the final states of a responder.
func final() []lifecyclev1alpha1.ResponderStateType {
	return []lifecyclev1alpha1.ResponderStateType{
		lifecyclev1alpha1.ResponderStateCanceled, lifecyclev1alpha1.ResponderStateCompleted, lifecyclev1alpha1.ResponderStateInterrupted,
	}
}

func validateResponders(f validation.Field, status, old *lifecyclev1alpha1.EvictionStatus, over bool) {
	targets, now := status.TargetResponders, simulation.Now(f.Context())
	if at := f.Child("targetResponders"); sameTargets(at, targets, old.TargetResponders) && wellFormed(targets, func(t *lifecyclev1alpha1.TargetResponder) string { return t.Name }) {
		turn := turnOf(targets, old.TargetResponders, over)
		for i := range targets {
			states, why := turn.expected(i)
			validateTarget(at.Index(i), &targets[i], statusOf(status.Responders, i, targets[i].Name), states, why, over, now)
		}
	}
	if at := f.Child("responders"); pairs(at, status.Responders, targets) && wellFormed(status.Responders, func(r *lifecyclev1alpha1.ResponderStatus) string { return r.Name }) {
		for i := range status.Responders {
			var before *lifecyclev1alpha1.ResponderStatus
			if i < len(old.Responders) {
				before = &old.Responders[i]
			}
			validateResponder(at.Index(i), &status.Responders[i], before, targets[i].State == lifecyclev1alpha1.ResponderStateActive, now)
		}
	}
}

// wellFormed reports whether a list is short enough and has no duplicate names. Other lists are not validated
// here, because +k8s markers reject them.
func wellFormed[T any](list []T, name func(*T) string) bool {
	if len(list) > maxResponders {
		return false
	}
	seen := validation.NewDuplicates[string](len(list))
	for i := range list {
		if seen.IsDuplicate(name(&list[i])) {
			return false
		}
	}
	return true
}

// sameTargets requires that the list of responders and its order do not change.
func sameTargets(f validation.Field, targets, old []lifecyclev1alpha1.TargetResponder) bool {
	if len(old) == 0 {
		return true
	}
	if len(targets) != len(old) {
		f.Invalid(targets, "must preserve the same length and the same keys in the same order")
		return false
	}
	for i := range targets {
		if targets[i].Name != old[i].Name {
			f.Invalid(targets, "must preserve the same keys in the same order")
			return false
		}
	}
	return true
}

// pairs requires that both lists contain the same responders in the same order.
func pairs(f validation.Field, responders []lifecyclev1alpha1.ResponderStatus, targets []lifecyclev1alpha1.TargetResponder) bool {
	if len(responders) != len(targets) {
		f.Invalid(responders, "must be the same length as status.targetResponders and contain the same keys in the same order")
		return false
	}
	for i := range responders {
		if responders[i].Name != targets[i].Name {
			f.Invalid(responders, "must contain the same keys in the same order as status.targetResponders")
			return false
		}
	}
	return true
}

func statusOf(responders []lifecyclev1alpha1.ResponderStatus, i int, name string) *lifecyclev1alpha1.ResponderStatus {
	if i < len(responders) && responders[i].Name == name {
		return &responders[i]
	}
	return nil
}

// turn describes which responder was active before the update and whether it still is.
type turn struct {
	old []lifecyclev1alpha1.TargetResponder
	// active is the index of the responder that was active before the update, or -1. ended is true if this
	// responder is no longer active, over if the eviction has ended.
	active      int
	ended, over bool
}

func turnOf(targets, old []lifecyclev1alpha1.TargetResponder, over bool) turn {
	isActive := func(t lifecyclev1alpha1.TargetResponder) bool {
		return t.State == lifecyclev1alpha1.ResponderStateActive
	}
	t := turn{old: old, active: slices.IndexFunc(old, isActive), over: over}
	t.ended = t.active >= 0 && !isActive(targets[t.active])
	return t
}

// expected returns the valid states of responder i, and the reason for them.
func (t *turn) expected(i int) (states []lifecyclev1alpha1.ResponderStateType, why string) {
	one := func(state lifecyclev1alpha1.ResponderStateType, why string) ([]lifecyclev1alpha1.ResponderStateType, string) {
		return []lifecyclev1alpha1.ResponderStateType{state}, why
	}
	const finished = "the eviction request has finished processing"
	next := i == 0 && len(t.old) == 0 || t.ended && i == t.active+1
	switch {
	case i < t.active, len(t.old) > 0 && t.active < 0 && t.over:
		return one(t.old[i].State, "final state is immutable")
	case i == t.active && t.ended:
		return final(), "this responder must reach a final state"
	case i == t.active && t.over:
		return final(), finished
	case i == t.active:
		return one(lifecyclev1alpha1.ResponderStateActive, "the eviction request stays active")
	case next && t.over:
		return one(lifecyclev1alpha1.ResponderStateInactive, finished)
	case next:
		return one(lifecyclev1alpha1.ResponderStateActive, "this responder is next in line")
	}
	return one(lifecyclev1alpha1.ResponderStateInactive, "the previously active has not finished processing")
}

func validateTarget(f validation.Field, target *lifecyclev1alpha1.TargetResponder, status *lifecyclev1alpha1.ResponderStatus, states []lifecyclev1alpha1.ResponderStateType, why string, over bool, now time.Time) {
	if status == nil {
		f.Invalid(target, fmt.Sprintf("%q has to be tracked in status.responders first", target.Name))
		return
	}
	at := f.Child("state")
	if !slices.Contains(states, target.State) {
		names := make([]string, len(states))
		for i, state := range states {
			names[i] = string(state)
		}
		at.Invalid(target.State, fmt.Sprintf("must be one of: %s, because %s", strings.Join(names, ", "), why))
	}
	working := status.StartTime != nil && status.CompletionTime == nil
	if !working || over || slices.Contains(states, lifecyclev1alpha1.ResponderStateActive) {
		return
	}
	heard := status.StartTime
	if status.HeartbeatTime != nil {
		heard = status.HeartbeatTime
	}
	if now.Before(heard.Add(heartbeatDeadline - skew)) {
		at.Forbidden("must stay Active because the responder is in progress and it should report status.responders.heartbeatTime or status.responders.completionTime")
	}
}

// validateResponder validates the status that a responder has written. active is set if the
// responder is active.
func validateResponder(f validation.Field, status, old *lifecyclev1alpha1.ResponderStatus, active bool, now time.Time) {
	if old == nil {
		old = &lifecyclev1alpha1.ResponderStatus{}
	} else if !active && validation.Changed(status, old) {
		f.Invalid(status, "field is immutable")
		return
	}
	start := f.Child("startTime")
	t := times{start: status.StartTime, startPath: start.Path().String(), now: now}
	switch {
	case old.StartTime != nil && !old.StartTime.Equal(status.StartTime): // a +k8s marker rejects this
	case status.StartTime == nil && active:
		start.Required("is required for an active responder")
	case status.StartTime != nil && old.StartTime == nil && !t.isNow(status.StartTime):
		start.Invalid(status.StartTime, "must be set to the present time")
	}
	t.validateHeartbeat(f.Child("heartbeatTime"), status.HeartbeatTime, old.HeartbeatTime)
	t.validateExpectation(f.Child("expectedCompletionTime"), status.ExpectedCompletionTime, old.ExpectedCompletionTime)
	t.validateCompletion(f.Child("completionTime"), status.CompletionTime, old.CompletionTime)
}

// times contains the reference times against which the times of a responder are validated.
type times struct {
	start     *metav1.Time
	startPath string
	now       time.Time
}

func (t *times) isNow(at *metav1.Time) bool {
	return at.After(t.now.Add(-skew)) && at.Time.Before(t.now.Add(skew))
}

// afterStart requires that a time is not before the responder became active.
func (t *times) afterStart(f validation.Field, at *metav1.Time) bool {
	switch {
	case t.start == nil:
		f.Invalid(at, fmt.Sprintf("cannot be set before %s is set", t.startPath))
	case at.Before(t.start):
		f.Invalid(at, fmt.Sprintf("must occur after %s", t.startPath))
	default:
		return true
	}
	return false
}

func (t *times) validateHeartbeat(f validation.Field, at, old *metav1.Time) {
	switch {
	case at == nil && old != nil:
		f.Required("is required once set")
	case at == nil || at.Equal(old):
	case t.start != nil && at.Before(old):
		f.Invalid(at, "cannot be decreased")
	case t.afterStart(f, at) && !t.isNow(at):
		f.Invalid(at, "must be set to the present time")
	}
}

func (t *times) validateExpectation(f validation.Field, at, old *metav1.Time) {
	switch {
	case at == nil || at.Equal(old) || !t.afterStart(f, at):
	case at.Time.Before(t.now.Add(-skew)):
		f.Invalid(at, "cannot be set to the past time")
	case at.After(t.now.Add(longestExpectation)):
		f.Invalid(at, "must complete within 10 years")
	}
}

func (t *times) validateCompletion(f validation.Field, at, old *metav1.Time) {
	if at == nil || old != nil && !old.Equal(at) { // a +k8s marker rejects changes
		return
	}
	if t.afterStart(f, at) && old == nil && !t.isNow(at) {
		f.Invalid(at, "must be set to the present time")
	}
}
