package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/request"
)

// Limits of the fields of an event, in bytes.
const (
	maxEventText = 128
	maxEventNote = 1024
)

// validateEvent validates events of both API groups. The rules for events.k8s.io are stricter, because the
// core group must accept the events of older clients.
func validateEvent(f validation.Field, event, old *corev1.Event) {
	info := request.InfoFrom(f.Context())
	newer := info != nil && info.Group == eventsv1.GroupName
	reporter := "reportingComponent"
	if newer {
		reporter = "reportingController"
	}
	validateInvolvedNamespace(f.Child("involvedObject").Child("namespace"), event)
	if !event.EventTime.IsZero() { // only new-style events have an event time
		validateReport(f, event, reporter)
	}
	if newer {
		for i, finalizer := range event.Finalizers {
			validateFinalizerDomain(f.Child("metadata").Child("finalizers").Index(i), finalizer)
		}
	}
	switch {
	case old == nil && newer:
		validateEventNames(f.Child("metadata"), event, apivalidation.NameIsDNSSubdomain)
		validateNewEvent(f, event)
	case old == nil: // the name only has to be a valid path segment
		validateEventNames(f.Child("metadata"), event, path.ValidatePathSegmentName)
	case newer:
		validateEventUpdate(f, event, old)
	}
}

func validateEventNames(f validation.Field, event *corev1.Event, rule apivalidation.ValidateNameFunc) {
	validateEventName(f.Child("generateName"), event.GenerateName, true, rule)
	validateEventName(f.Child("name"), event.Name, false, rule)
}

func validateEventName(f validation.Field, name string, prefix bool, rule apivalidation.ValidateNameFunc) {
	if name == "" {
		return
	}
	if problems := rule(name, prefix); len(problems) > 0 {
		f.InvalidFor(name, problems)
	}
}

// validateInvolvedNamespace validates the namespace of an event. An event about a cluster-scoped object must
// be in default or, if it has an event time, in default or kube-system. Any other event without an event time
// must be in the namespace of the involved object.
func validateInvolvedNamespace(f validation.Field, event *corev1.Event) {
	const elsewhere = "does not match event.namespace"
	switch involved := event.InvolvedObject.Namespace; {
	case involved == "":
		inSystem := event.Namespace == metav1.NamespaceSystem && !event.EventTime.IsZero()
		if event.Namespace != metav1.NamespaceDefault && !inSystem {
			f.Invalid(involved, elsewhere)
		}
	case event.EventTime.IsZero() && involved != event.Namespace:
		f.Invalid(involved, elsewhere)
	}
}

// validateReport validates the reporting controller and instance.
func validateReport(f validation.Field, event *corev1.Event, reporter string) {
	if event.ReportingController == "" {
		f.Child(reporter).Required("")
	}
	f.Child(reporter).QualifiedName(event.ReportingController)
	for _, text := range [...]struct{ name, value string }{
		{"reportingInstance", event.ReportingInstance}, {"action", event.Action}, {"reason", event.Reason},
	} {
		if text.value == "" {
			f.Child(text.name).Required("")
		}
		validateEventText(f.Child(text.name), text.value, maxEventText)
	}
	validateEventText(f.Child("message"), event.Message, maxEventNote)
}

// validateEventText limits the length of a text. The error message does not include the text, which may be
// long.
func validateEventText(f validation.Field, text string, most int) {
	if len(text) > most {
		f.Invalid("", fmt.Sprintf("can have at most %d characters", most))
	}
}

// validateNewEvent validates events that are written through events.k8s.io. The deprecated fields are reserved
// for events that clients have created through the core group.
func validateNewEvent(f validation.Field, event *corev1.Event) {
	validateSeries(f.Child("series"), event.Series)
	if event.EventTime.IsZero() {
		f.Child("eventTime").Required("")
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		f.Child("type").Invalid("", "has invalid value: "+event.Type)
	}
	for _, field := range [...]struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()}, {"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0}, {"source", event.Source != corev1.EventSource{}},
	} {
		if field.set {
			f.Child(field.name).Invalid("", "needs to be unset")
		}
	}
}

// validateEventUpdate rejects changes of an event, except changes of its series.
func validateEventUpdate(f validation.Field, event, old *corev1.Event) {
	if validation.Changed(event.Series, old.Series) {
		validateSeries(f.Child("series"), event.Series)
	}
	validation.Immutable(f.Child("involvedObject"), event.InvolvedObject, old.InvolvedObject)
	validation.Immutable(f.Child("reason"), event.Reason, old.Reason)
	validation.Immutable(f.Child("message"), event.Message, old.Message)
	validation.Immutable(f.Child("source"), event.Source, old.Source)
	validation.Immutable(f.Child("firstTimestamp"), event.FirstTimestamp, old.FirstTimestamp)
	validation.Immutable(f.Child("lastTimestamp"), event.LastTimestamp, old.LastTimestamp)
	validation.Immutable(f.Child("count"), event.Count, old.Count)
	validation.Immutable(f.Child("type"), event.Type, old.Type)
	validation.Immutable(f.Child("eventTime"), event.EventTime, old.EventTime)
	validation.Immutable(f.Child("action"), event.Action, old.Action)
	validation.Immutable(f.Child("related"), event.Related, old.Related)
	validation.Immutable(f.Child("reportingController"), event.ReportingController, old.ReportingController)
	validation.Immutable(f.Child("reportingInstance"), event.ReportingInstance, old.ReportingInstance)
}

func validateSeries(f validation.Field, series *corev1.EventSeries) {
	if series == nil {
		return
	}
	if series.Count < 2 {
		f.Child("count").Invalid("", "should be at least 2")
	}
	if series.LastObservedTime.IsZero() {
		f.Child("lastObservedTime").Required("")
	}
}
