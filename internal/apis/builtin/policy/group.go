// Package policy declares PodDisruptionBudget, the resource of the policy group.
package policy

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version policy/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: policyv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*policyv1.PodDisruptionBudget]{
			Names: builtin.Names{Plural: "poddisruptionbudgets", Kind: "PodDisruptionBudget", ShortNames: []string{"pdb"}}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{
				Generation: true, RequireResourceVersion: true, AllowAnyFinalizer: true, ValidateName: path.ValidatePathSegmentName,
			},
			Strategy: builtin.Strategy[*policyv1.PodDisruptionBudget]{Validate: validateBudget},
			Status:   &builtin.Status[*policyv1.PodDisruptionBudget]{Validate: validateBudgetStatus},
			Columns:  budgetColumns(),
		}),
	}}
}

func budgetColumns() *builtin.Columns[*policyv1.PodDisruptionBudget] {
	return &builtin.Columns[*policyv1.PodDisruptionBudget]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Min Available", "string", "The minimum number of pods that must be available."),
			builtin.Column("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
			builtin.Column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time."),
			builtin.AgeColumn(),
		},
		Cells: func(budget *policyv1.PodDisruptionBudget, now time.Time) []any {
			return []any{
				budget.Name, limitText(budget.Spec.MinAvailable), limitText(budget.Spec.MaxUnavailable),
				int64(budget.Status.DisruptionsAllowed), builtin.Age(budget.CreationTimestamp, now),
			}
		},
	}
}

func limitText(limit *intstr.IntOrString) string {
	if limit == nil {
		return "N/A"
	}
	return limit.String()
}
