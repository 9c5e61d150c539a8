package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// behavior is the JSON form of the behavior annotation. It contains the types of v2, but the keys are the
// names of their Go fields. kube-apiserver writes this form, and clients compare it.
type behavior struct {
	ScaleUp, ScaleDown *scalingRules
}

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

type scalingPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorToV1(in *autoscalingv2.HorizontalPodAutoscalerBehavior) behavior {
	return behavior{ScaleUp: rulesToV1(in.ScaleUp), ScaleDown: rulesToV1(in.ScaleDown)}
}

func rulesToV1(in *autoscalingv2.HPAScalingRules) *scalingRules {
	if in == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance}
	for _, policy := range in.Policies {
		out.Policies = append(out.Policies, scalingPolicy(policy))
	}
	return out
}

func behaviorFromV1(in behavior) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rulesFromV1(in.ScaleUp), ScaleDown: rulesFromV1(in.ScaleDown)}
}

func rulesFromV1(in *scalingRules) *autoscalingv2.HPAScalingRules {
	if in == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: in.StabilizationWindowSeconds, SelectPolicy: in.SelectPolicy, Tolerance: in.Tolerance}
	for _, policy := range in.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(policy))
	}
	return out
}
