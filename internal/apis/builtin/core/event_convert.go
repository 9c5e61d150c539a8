package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
)

// eventsV1 returns the API version events.k8s.io/v1, which uses other field names than the core version.
func eventsV1() *codec.Version {
	return builtin.ConvertedVersion(eventsv1.SchemeGroupVersion.WithKind("Event"), nil, eventFromV1, eventToV1)
}

func eventFromV1(in *eventsv1.Event) (*corev1.Event, error) {
	return &corev1.Event{
		ObjectMeta: in.ObjectMeta, InvolvedObject: in.Regarding, Related: in.Related,
		Reason: in.Reason, Message: in.Note, Type: in.Type, Action: in.Action,
		EventTime: in.EventTime, Series: (*corev1.EventSeries)(in.Series),
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		Source: in.DeprecatedSource, Count: in.DeprecatedCount,
		FirstTimestamp: in.DeprecatedFirstTimestamp, LastTimestamp: in.DeprecatedLastTimestamp,
	}, nil
}

func eventToV1(in *corev1.Event) (*eventsv1.Event, error) {
	return &eventsv1.Event{
		ObjectMeta: in.ObjectMeta, Regarding: in.InvolvedObject, Related: in.Related,
		Reason: in.Reason, Note: in.Message, Type: in.Type, Action: in.Action,
		EventTime: in.EventTime, Series: (*eventsv1.EventSeries)(in.Series),
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		DeprecatedSource: in.Source, DeprecatedCount: in.Count,
		DeprecatedFirstTimestamp: in.FirstTimestamp, DeprecatedLastTimestamp: in.LastTimestamp,
	}, nil
}

// eventsV1FieldLabel converts field selectors of events.k8s.io/v1 to those of the core version.
func eventsV1FieldLabel(label, value string) (string, string, error) {
	switch label {
	case "metadata.name", "metadata.namespace", "reason", "type":
		return label, value, nil
	case "reportingController":
		return "reportingComponent", value, nil
	case "regarding.kind":
		return "involvedObject.kind", value, nil
	case "regarding.namespace":
		return "involvedObject.namespace", value, nil
	case "regarding.name":
		return "involvedObject.name", value, nil
	case "regarding.uid":
		return "involvedObject.uid", value, nil
	case "regarding.apiVersion":
		return "involvedObject.apiVersion", value, nil
	case "regarding.resourceVersion":
		return "involvedObject.resourceVersion", value, nil
	case "regarding.fieldPath":
		return "involvedObject.fieldPath", value, nil
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}
