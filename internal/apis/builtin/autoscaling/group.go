// Package autoscaling declares the resources of the autoscaling group. The hub version is autoscaling/v2.
// Objects in autoscaling/v1 are converted.
package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/feature"
)

// V2 returns the group version autoscaling/v2. Its resource is also served in autoscaling/v1.
func V2() builtin.Group {
	return builtin.Group{GroupVersion: autoscalingv2.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*autoscalingv2.HorizontalPodAutoscaler]{
			Names: builtin.Names{
				Plural: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", ShortNames: []string{"hpa"},
				Categories: []string{"all"},
			}, Namespaced: true,
			Versions:    builtin.Versions{Others: []builtin.Version{{Conversion: v1()}}},
			WritePolicy: builtin.WritePolicy{Generation: true, GenerationGate: feature.HPAGeneration},
			Strategy: builtin.Strategy[*autoscalingv2.HorizontalPodAutoscaler]{
				Default:          defaultV2,
				PrepareForCreate: prepare, PrepareForUpdate: prepareUpdate,
				Validate: validate,
			},
			Status:  &builtin.Status[*autoscalingv2.HorizontalPodAutoscaler]{PrepareForUpdate: prepareUpdate, Validate: validateStatus},
			Columns: columns(),
		}),
	}}
}
