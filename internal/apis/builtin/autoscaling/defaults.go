package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// scalingPeriod is the period of the default policies, in seconds.
const scalingPeriod = 15

// defaultV1 sets fewer defaults than defaultV2, because the default metric is set during the conversion to v2.
func defaultV1(hpa *autoscalingv1.HorizontalPodAutoscaler) {
	builtin.SetDefault(&hpa.Spec.MinReplicas, 1)
}

func defaultV2(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	builtin.SetDefault(&hpa.Spec.MinReplicas, 1)
	if len(hpa.Spec.Metrics) == 0 {
		hpa.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(defaultCPUUtilization)}
	}
	if behavior := hpa.Spec.Behavior; behavior != nil {
		builtin.SetDefault(&behavior.ScaleUp, autoscalingv2.HPAScalingRules{})
		builtin.SetDefault(&behavior.ScaleDown, autoscalingv2.HPAScalingRules{})
		defaultScaleUp(behavior.ScaleUp)
		defaultScaleDown(behavior.ScaleDown)
	}
}

// defaultScaleUp sets the default policies for scaling up. They allow the number of pods to double or to grow
// by four, whichever is more.
func defaultScaleUp(rules *autoscalingv2.HPAScalingRules) {
	builtin.SetDefault(&rules.StabilizationWindowSeconds, 0)
	builtin.SetDefault(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: scalingPeriod},
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: scalingPeriod},
		}
	}
}

// defaultScaleDown sets the default policies for scaling down. It does not set the stabilization window,
// because its default is a flag of the controller.
func defaultScaleDown(rules *autoscalingv2.HPAScalingRules) {
	builtin.SetDefault(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = []autoscalingv2.HPAScalingPolicy{
			{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: scalingPeriod},
		}
	}
}
