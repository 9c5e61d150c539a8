// Package autoscaling declares the resources of the autoscaling group. Their
// hub is autoscaling/v2; v1 is converted to and from it.
package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V2 is autoscaling/v2, and autoscaling/v1 besides.
func V2() builtin.Group {
	return builtin.Group{GroupVersion: autoscalingv2.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[autoscalingv2.HorizontalPodAutoscaler]{
			Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true,
			ShortNames: []string{"hpa"}, Categories: []string{"all"},
			Status: true, Generation: true, GenerationGate: feature.HPAGeneration,
			Default: defaultV2, Prepare: prepare, PrepareUpdate: prepareUpdate, PrepareStatus: prepareUpdate,
			Validate: validate, ValidateStatus: validateStatus,
			Columns: columns(),
			Also:    []builtin.Also{{Version: v1()}},
		}),
	}}
}
