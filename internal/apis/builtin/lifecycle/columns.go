package lifecycle

import (
	"fmt"
	"time"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func requestColumns() *builtin.Columns[*lifecyclev1alpha1.EvictionRequest] {
	spec := lifecyclev1alpha1.EvictionRequestSpec{}.SwaggerDoc()
	return &builtin.Columns[*lifecyclev1alpha1.EvictionRequest]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Target", "string", spec["target"]),
			builtin.Column("Target Type", "string", "Kind of the target"),
			builtin.Column("Status", "string", "Status of the eviction request"),
			builtin.Column("Requester", "string", spec["requester"]),
			builtin.Column("Intent", "string", spec["intent"]),
			builtin.AgeColumn(),
		},
		Cells: func(r *lifecyclev1alpha1.EvictionRequest, now time.Time) []any {
			name, kind := builtin.Unset, builtin.Unset
			if pod := r.Spec.Target.Pod; pod != nil {
				name, kind = pod.Name, "Pod"
			}
			return []any{
				r.Name, name, kind, state(r.Status.Conditions, r.Status.ObservedGeneration), r.Spec.Requester, string(r.Spec.Intent),
				builtin.Age(r.CreationTimestamp, now),
			}
		},
	}
}

func evictionColumns() *builtin.Columns[*lifecyclev1alpha1.Eviction] {
	return &builtin.Columns[*lifecyclev1alpha1.Eviction]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Target", "string", lifecyclev1alpha1.EvictionSpec{}.SwaggerDoc()["target"]),
			builtin.Column("Target Type", "string", "Kind of the target"),
			builtin.Column("Status", "string", "Status of the eviction"),
			builtin.Column("Active Responder", "string", "Name of the responder whose turn it is"),
			builtin.Column("Responder Status", "string", "State of that responder"),
			builtin.Column("Responder Expected Finish", "string", "When that responder expects to be done"),
			builtin.Column("Requesters", "string", "Who asks for the eviction"),
			builtin.AgeColumn(),
			builtin.WideColumn("Responder Heartbeat", "string", "When that responder was last heard of"),
			builtin.WideColumn("Responder Status Message", "string", "What that responder says"),
		},
		Cells: func(e *lifecyclev1alpha1.Eviction, now time.Time) []any {
			name, kind := builtin.Unset, builtin.Unset
			if pod := e.Spec.Target.Pod; pod != nil {
				name, kind = pod.Name, "Pod"
			}
			at := currentResponder(e.Status.TargetResponders)
			r := responderStatus(e, at)
			return []any{
				e.Name, name, kind, state(e.Status.Conditions, e.Status.ObservedGeneration),
				responderName(e.Status.TargetResponders, at), responderState(e.Status.TargetResponders, at, r, now), expectedFinish(r, now),
				requesters(e.Status.Requesters), builtin.Age(e.CreationTimestamp, now), ago(r.HeartbeatTime, now, builtin.Unset), message(r),
			}
		},
	}
}

// state formats the final condition that is true; TargetEvicted takes precedence over Failed. If neither is
// true, it returns Progressing if a controller has observed the object, and Pending otherwise.
func state(conditions []metav1.Condition, observed *int64) string {
	text := "Pending"
	if observed != nil && *observed > 0 {
		text = "Progressing"
	}
	for _, kind := range [...]lifecyclev1alpha1.EvictionConditionType{lifecyclev1alpha1.EvictionConditionFailed, lifecyclev1alpha1.EvictionConditionTargetEvicted} {
		for i := range conditions {
			if c := &conditions[i]; c.Type == string(kind) && c.Status == metav1.ConditionTrue {
				text = fmt.Sprintf("%s (%s)", c.Type, c.Reason)
			}
		}
	}
	return text
}

// currentResponder returns the index of the active responder. If no responder is active, it returns the index
// of the last responder that was active, or -1 if none was active.
func currentResponder(all []lifecyclev1alpha1.TargetResponder) int {
	last := -1
	for i := range all {
		switch all[i].State {
		case lifecyclev1alpha1.ResponderStateActive:
			return i
		case lifecyclev1alpha1.ResponderStateInactive:
		default:
			last = i
		}
	}
	return last
}

func responderName(all []lifecyclev1alpha1.TargetResponder, at int) string {
	name := builtin.Unset
	if at >= 0 {
		name = all[at].Name
	}
	return fmt.Sprintf("%s (%d/%d)", name, at+1, len(all))
}

// responderStatus returns the status of the target responder with index at. It returns the zero value if the
// responder has not written a status or if at is -1.
func responderStatus(e *lifecyclev1alpha1.Eviction, at int) lifecyclev1alpha1.ResponderStatus {
	for i := range e.Status.Responders {
		if r := &e.Status.Responders[i]; at >= 0 && r.Name == e.Status.TargetResponders[at].Name {
			return *r
		}
	}
	return lifecyclev1alpha1.ResponderStatus{}
}

func responderState(all []lifecyclev1alpha1.TargetResponder, at int, r lifecyclev1alpha1.ResponderStatus, now time.Time) string {
	if at < 0 {
		return builtin.Unset
	}
	since := r.StartTime
	if r.CompletionTime != nil {
		since = r.CompletionTime
	}
	text := string(all[at].State)
	if since != nil {
		text += " (" + ago(since, now, "") + ")"
	}
	return text
}

func expectedFinish(r lifecyclev1alpha1.ResponderStatus, now time.Time) string {
	switch at := r.ExpectedCompletionTime; {
	case r.CompletionTime != nil:
		return "-"
	case at == nil:
		return "<unknown>"
	case at.After(now):
		return "in " + duration.HumanDuration(at.Sub(now))
	default:
		return ago(at, now, "")
	}
}

func ago(at *metav1.Time, now time.Time, never string) string {
	if at == nil {
		return never
	}
	return duration.HumanDuration(now.Sub(at.Time)) + " ago"
}

func message(r lifecyclev1alpha1.ResponderStatus) string {
	if r.Message == nil || *r.Message == "" {
		return builtin.Unset
	}
	return *r.Message
}

// requesters formats the name of the alphabetically first active requester and the number of other active
// requesters.
func requesters(all []lifecyclev1alpha1.Requester) string {
	if len(all) == 0 {
		return builtin.None
	}
	first, more := "", -1
	for i := range all {
		if all[i].Intent == lifecyclev1alpha1.RequesterIntentWithdrawn {
			continue
		}
		if more++; first == "" || all[i].Name < first {
			first = all[i].Name
		}
	}
	switch {
	case more < 0:
		return "<withdrawn>"
	case more == 0:
		return first
	}
	return fmt.Sprintf("%s + %d more...", first, more)
}
