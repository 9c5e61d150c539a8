// Package flowcontrol declares the resources of flowcontrol.apiserver.k8s.io. Package
// filters/flowcontrol enforces them.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 is flowcontrol.apiserver.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: flowcontrolv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[flowcontrolv1.FlowSchema]{
			Name: "flowschemas", Kind: "FlowSchema",
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true,
			Default: defaultFlowSchema, Validate: validateFlowSchema, ValidateStatus: validateFlowSchemaStatus, Columns: flowSchemaColumns(),
		}),
		builtin.Resource(builtin.Row[flowcontrolv1.PriorityLevelConfiguration]{
			Name: "prioritylevelconfigurations", Kind: "PriorityLevelConfiguration",
			Status: true, StatusKeeps: []string{"metadata"}, Generation: true,
			Default: defaultPriorityLevel, Validate: validatePriorityLevel, ValidateStatus: validatePriorityLevelStatus, Columns: priorityLevelColumns(),
		}),
	}}
}
