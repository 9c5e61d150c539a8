// Package scheduling declares the resources of scheduling.k8s.io.
package scheduling

import (
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V1 is scheduling.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: schedulingv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[schedulingv1.PriorityClass]{
			Name: "priorityclasses", Kind: "PriorityClass", ShortNames: []string{"pc"},
			Generation: true, SpecChanged: never, Undeletable: undeletableClass,
			Default: defaultPriorityClass, Validate: validatePriorityClass, Columns: priorityClassColumns(),
		}),
	}}
}

// V1Beta1 is scheduling.k8s.io/v1beta1, and v1alpha3 of the same kinds.
func V1Beta1() builtin.Group {
	v1alpha3 := []builtin.Also{{GroupVersion: schedulingv1alpha3.SchemeGroupVersion}}
	return builtin.Group{GroupVersion: schedulingv1beta1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[schedulingv1beta1.PodGroup]{
			Name: "podgroups", Kind: "PodGroup", Namespaced: true, Gate: feature.GenericWorkload,
			Status: true, StatusKeeps: []string{"metadata"},
			Gated: gatedPodGroup(), Default: defaultPodGroup, Validate: validatePodGroup, ValidateStatus: validatePodGroupStatus, Columns: podGroupColumns(), Also: v1alpha3,
		}),
		builtin.Resource(builtin.Row[schedulingv1beta1.Workload]{
			Name: "workloads", Kind: "Workload", Namespaced: true, Gate: feature.GenericWorkload, Gated: gatedWorkload(),
			Validate: validateWorkload, Also: v1alpha3,
		}),
	}}
}

// V1Alpha3 returns the resources that only scheduling.k8s.io/v1alpha3 has.
func V1Alpha3() builtin.Group {
	return builtin.Group{GroupVersion: schedulingv1alpha3.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[schedulingv1alpha3.CompositePodGroup]{
			Name: "compositepodgroups", Kind: "CompositePodGroup", Namespaced: true, Gate: feature.CompositePodGroup,
			Status: true, StatusKeeps: []string{"metadata"},
			Default: defaultCompositePodGroup, Validate: validateCompositePodGroup, ValidateStatus: validateCompositePodGroupStatus, Columns: compositePodGroupColumns(),
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
