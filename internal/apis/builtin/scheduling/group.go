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

// V1 returns the group version scheduling.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: schedulingv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*schedulingv1.PriorityClass]{
			Names:       builtin.Names{Plural: "priorityclasses", Kind: "PriorityClass", ShortNames: []string{"pc"}},
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*schedulingv1.PriorityClass]{
				Default: defaultPriorityClass, SpecChanged: never,
				Validate: validatePriorityClass,
			},
			Deletion: builtin.Deletion[*schedulingv1.PriorityClass]{ForbidName: undeletableClass},
			Columns:  priorityClassColumns(),
		}),
	}}
}

// V1Beta1 returns the group version scheduling.k8s.io/v1beta1, whose resources are also served in v1alpha3.
func V1Beta1() builtin.Group {
	v1alpha3 := []builtin.Version{{GroupVersion: schedulingv1alpha3.SchemeGroupVersion}}
	return builtin.Group{GroupVersion: schedulingv1beta1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*schedulingv1beta1.PodGroup]{
			Names: builtin.Names{Plural: "podgroups", Kind: "PodGroup"}, Namespaced: true, Gate: feature.GenericWorkload,
			Versions: builtin.Versions{Others: v1alpha3},
			Strategy: builtin.Strategy[*schedulingv1beta1.PodGroup]{
				Default:     defaultPodGroup,
				GatedFields: gatedPodGroup(),
				Validate:    validatePodGroup,
			},
			Status:  &builtin.Status[*schedulingv1beta1.PodGroup]{PreservedMetadata: []string{"metadata"}, Validate: validatePodGroupStatus},
			Columns: podGroupColumns(),
		}),
		builtin.Resource(builtin.Row[*schedulingv1beta1.Workload]{
			Names: builtin.Names{Plural: "workloads", Kind: "Workload"}, Namespaced: true, Gate: feature.GenericWorkload,
			Versions: builtin.Versions{Others: v1alpha3},
			Strategy: builtin.Strategy[*schedulingv1beta1.Workload]{GatedFields: gatedWorkload(), Validate: validateWorkload},
		}),
	}}
}

// V1Alpha3 returns the resources that exist only in scheduling.k8s.io/v1alpha3.
func V1Alpha3() builtin.Group {
	return builtin.Group{GroupVersion: schedulingv1alpha3.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*schedulingv1alpha3.CompositePodGroup]{
			Names: builtin.Names{Plural: "compositepodgroups", Kind: "CompositePodGroup"}, Namespaced: true, Gate: feature.CompositePodGroup,
			Strategy: builtin.Strategy[*schedulingv1alpha3.CompositePodGroup]{Default: defaultCompositePodGroup, Validate: validateCompositePodGroup},
			Status: &builtin.Status[*schedulingv1alpha3.CompositePodGroup]{
				PreservedMetadata: []string{"metadata"}, Validate: validateCompositePodGroupStatus,
			},
			Columns: compositePodGroupColumns(),
		}),
	}}
}

// never disables the generic increment of the generation. As in kube-apiserver, the generation of a priority
// class is always 1.
func never(_, _ *schedulingv1.PriorityClass) bool { return false }

func priorityClassColumns() *builtin.Columns[*schedulingv1.PriorityClass] {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return &builtin.Columns[*schedulingv1.PriorityClass]{
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
