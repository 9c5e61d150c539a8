// Package scheduling declares the resource of scheduling.k8s.io. It schedules
// nothing.
//
// Imports: apis/builtin, apis/builtin/declarative/scheduling/v1alpha3,
// apis/builtin/declarative/scheduling/v1beta1, apis/builtin/validation.
package scheduling

import (
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is scheduling.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: schedulingv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[schedulingv1.PriorityClass]{
			Name: "priorityclasses", Kind: "PriorityClass", ShortNames: []string{"pc"},
			Generation: true, SpecChanged: never,
			Default: defaultPriorityClass, Columns: priorityClassColumns(),
		}),
	}}
}

// never counts no generation beyond the first, as kube-apiserver.
func never(_, _ *schedulingv1.PriorityClass) bool { return false }

func priorityClassColumns() *builtin.Columns[schedulingv1.PriorityClass] {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return &builtin.Columns[schedulingv1.PriorityClass]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Value", "integer", doc["value"]),
			builtin.Column("Global-Default", "boolean", doc["globalDefault"]),
			builtin.AgeColumn(),
			builtin.Column("PreemptionPolicy", "string", doc["preemptionPolicy"]),
		},
		Cells: func(class *schedulingv1.PriorityClass, now time.Time) []any {
			preemption := ""
			if class.PreemptionPolicy != nil {
				preemption = string(*class.PreemptionPolicy)
			}
			return []any{
				class.Name, int64(class.Value), class.GlobalDefault, builtin.Age(class.CreationTimestamp, now), preemption,
			}
		},
	}
}
