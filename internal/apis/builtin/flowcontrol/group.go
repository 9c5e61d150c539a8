// Package flowcontrol declares the resources of flowcontrol.apiserver.k8s.io. Package
// filters/flowcontrol enforces them.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version flowcontrol.apiserver.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: flowcontrolv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*flowcontrolv1.FlowSchema]{
			Names:       builtin.Names{Plural: "flowschemas", Kind: "FlowSchema"},
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy:    builtin.Strategy[*flowcontrolv1.FlowSchema]{Default: defaultFlowSchema, Validate: validateFlowSchema},
			Status:      &builtin.Status[*flowcontrolv1.FlowSchema]{PreservedMetadata: []string{"metadata"}, Validate: validateFlowSchemaStatus},
			Columns:     flowSchemaColumns(),
		}),
		builtin.Resource(builtin.Row[*flowcontrolv1.PriorityLevelConfiguration]{
			Names:       builtin.Names{Plural: "prioritylevelconfigurations", Kind: "PriorityLevelConfiguration"},
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy:    builtin.Strategy[*flowcontrolv1.PriorityLevelConfiguration]{Default: defaultPriorityLevel, Validate: validatePriorityLevel},
			Status: &builtin.Status[*flowcontrolv1.PriorityLevelConfiguration]{
				PreservedMetadata: []string{"metadata"}, Validate: validatePriorityLevelStatus,
			},
			Columns: priorityLevelColumns(),
		}),
	}}
}
