package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// events declares the events resource. Events expire after Env.EventTTL.
func events() builtin.Row[*corev1.Event] {
	return builtin.Row[*corev1.Event]{
		Names: builtin.Names{Plural: "events", Kind: "Event", ShortNames: []string{"ev"}}, Namespaced: true,
		Versions:       builtin.Versions{Others: []builtin.Version{{Conversion: eventsV1(), ConvertLabel: eventsV1FieldLabel}}},
		Storage:        builtin.Storage{TTL: func(env *builtin.Env) time.Duration { return env.EventTTL }},
		WritePolicy:    builtin.WritePolicy{AllowCreateOnUpdate: true, AllowAnyFinalizer: true, ValidateName: anyEventName},
		Strategy:       builtin.Strategy[*corev1.Event]{Validate: validateEvent},
		Deletion:       builtin.Deletion[*corev1.Event]{NoDependents: true},
		FieldSelectors: builtin.FieldSelectors[*corev1.Event]{Keys: eventFieldKeys(), Values: eventFields},
		Columns:        eventColumns(),
	}
}

// anyEventName accepts all names. Which names are valid depends on the API version, so validateEvent validates
// names instead.
func anyEventName(string, bool) []string { return nil }

func eventFields(event *corev1.Event) fields.Set {
	source := event.Source.Component
	if source == "" {
		source = event.ReportingController
	}
	object := &event.InvolvedObject
	return fields.Set{
		"involvedObject.kind":            object.Kind,
		"involvedObject.namespace":       object.Namespace,
		"involvedObject.name":            object.Name,
		"involvedObject.uid":             string(object.UID),
		"involvedObject.apiVersion":      object.APIVersion,
		"involvedObject.resourceVersion": object.ResourceVersion,
		"involvedObject.fieldPath":       object.FieldPath,
		"reason":                         event.Reason,
		"reportingComponent":             event.ReportingController,
		"source":                         source,
		"type":                           event.Type,
	}
}

func eventFieldKeys() []string {
	var keys []string
	for key := range eventFields(&corev1.Event{}) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func eventColumns() *builtin.Columns[*corev1.Event] {
	event, object := corev1.Event{}.SwaggerDoc(), corev1.ObjectReference{}.SwaggerDoc()
	name := builtin.NameColumn()
	name.Priority = 1
	return &builtin.Columns[*corev1.Event]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.Column("Last Seen", "string", event["lastTimestamp"]),
			builtin.Column("Type", "string", event["type"]),
			builtin.Column("Reason", "string", event["reason"]),
			builtin.Column("Object", "string", event["involvedObject"]),
			builtin.WideColumn("Subobject", "string", object["fieldPath"]),
			builtin.WideColumn("Source", "string", event["source"]),
			builtin.Column("Message", "string", event["message"]),
			builtin.WideColumn("First Seen", "string", event["firstTimestamp"]),
			builtin.WideColumn("Count", "string", event["count"]),
			name,
		},
		Cells: eventCells,
	}
}

func eventCells(event *corev1.Event, now time.Time) []any {
	first := builtin.Age(event.FirstTimestamp, now)
	if event.FirstTimestamp.IsZero() {
		first = builtin.Age(metav1.Time(event.EventTime), now)
	}
	last := first
	if !event.LastTimestamp.IsZero() {
		last = builtin.Age(event.LastTimestamp, now)
	}
	count := int64(event.Count)
	if event.Series != nil {
		last, count = builtin.Age(metav1.Time(event.Series.LastObservedTime), now), int64(event.Series.Count)
	} else if count == 0 {
		count = 1 // a single occurrence
	}
	object := strings.ToLower(event.InvolvedObject.Kind)
	if event.InvolvedObject.Name != "" {
		object += "/" + event.InvolvedObject.Name
	}
	return []any{
		last, event.Type, event.Reason, object, event.InvolvedObject.FieldPath, eventSourceText(event),
		strings.TrimSpace(event.Message), first, count, event.Name,
	}
}

func eventSourceText(event *corev1.Event) string {
	component, instance := event.Source.Component, event.Source.Host
	if component == "" {
		component = event.ReportingController
	}
	if instance == "" {
		instance = event.ReportingInstance
	}
	if instance == "" {
		return component
	}
	return fmt.Sprintf("%s, %s", component, instance)
}
