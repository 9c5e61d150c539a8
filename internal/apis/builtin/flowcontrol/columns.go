package flowcontrol

import (
	"cmp"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func flowSchemaColumns() *builtin.Columns[*flowcontrolv1.FlowSchema] {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return &builtin.Columns[*flowcontrolv1.FlowSchema]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("PriorityLevel", "string", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			builtin.Column("MatchingPrecedence", "string", spec["matchingPrecedence"]),
			builtin.Column("DistinguisherMethod", "string", spec["distinguisherMethod"]),
			builtin.AgeColumn(),
			builtin.Column("MissingPL", "string", "references a broken or non-existent PriorityLevelConfiguration"),
		},
		Cells: func(schema *flowcontrolv1.FlowSchema, now time.Time) []any {
			method := builtin.None
			if schema.Spec.DistinguisherMethod != nil {
				method = string(schema.Spec.DistinguisherMethod.Type)
			}
			return []any{
				schema.Name, schema.Spec.PriorityLevelConfiguration.Name, int64(schema.Spec.MatchingPrecedence), method,
				builtin.Age(schema.CreationTimestamp, now), danglingText(schema),
			}
		},
		SortRows: byPrecedence,
	}
}

// byPrecedence returns the indexes of the schemas in the order in which requests are matched against them.
func byPrecedence(schemas []*flowcontrolv1.FlowSchema, _ [][]any) []int {
	order := make([]int, len(schemas))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := schemas[i], schemas[j]
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
	return order
}

func danglingText(schema *flowcontrolv1.FlowSchema) string {
	for i := range schema.Status.Conditions {
		if schema.Status.Conditions[i].Type == flowcontrolv1.FlowSchemaConditionDangling {
			return string(schema.Status.Conditions[i].Status)
		}
	}
	return "?"
}

func priorityLevelColumns() *builtin.Columns[*flowcontrolv1.PriorityLevelConfiguration] {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return &builtin.Columns[*flowcontrolv1.PriorityLevelConfiguration]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Type", "string", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			builtin.Column("NominalConcurrencyShares", "string", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
			builtin.Column("Queues", "string", queuing["queues"]),
			builtin.Column("HandSize", "string", queuing["handSize"]),
			builtin.Column("QueueLengthLimit", "string", queuing["queueLengthLimit"]),
			builtin.AgeColumn(),
		},
		Cells: func(level *flowcontrolv1.PriorityLevelConfiguration, now time.Time) []any {
			var shares, queues, hand, length any = builtin.None, builtin.None, builtin.None, builtin.None
			if limited := level.Spec.Limited; limited != nil {
				if limited.NominalConcurrencyShares != nil {
					shares = int64(*limited.NominalConcurrencyShares)
				}
				if queuing := limited.LimitResponse.Queuing; queuing != nil {
					queues, hand, length = int64(queuing.Queues), int64(queuing.HandSize), int64(queuing.QueueLengthLimit)
				}
			}
			return []any{
				level.Name, string(level.Spec.Type), shares, queues, hand, length, builtin.Age(level.CreationTimestamp, now),
			}
		},
	}
}
