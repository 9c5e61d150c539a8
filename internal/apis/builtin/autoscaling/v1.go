package autoscaling

import (
	"encoding/json"
	"fmt"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/precheck"
)

// Annotations with which v1 represents fields that exist only in v2.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
	// Older annotations for parts of the behavior. They are no longer written.
	scaleDownToleranceAnnotation = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
	scaleUpToleranceAnnotation   = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
)

// defaultCPUUtilization is the target CPU utilization of a v1 autoscaler without metrics, in percent.
const defaultCPUUtilization = 80

// prepare drops the annotations that are used only in v1.
func prepare(_ *builtin.Operation, hpa *autoscalingv2.HorizontalPodAutoscaler) {
	hpa.Annotations = withoutV1Annotations(hpa.Annotations)
}

func prepareUpdate(op *builtin.Operation, hpa, _ *autoscalingv2.HorizontalPodAutoscaler) {
	prepare(op, hpa)
}

// v1 returns the version autoscaling/v1. It has a field for the CPU utilization, and represents all other
// metrics with annotations.
func v1() *codec.Version {
	return builtin.ConvertedVersion(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), defaultV1, fromV1, toV1)
}

// withoutV1Annotations returns a copy of annotations without the annotations of v1. It does not modify its argument.
func withoutV1Annotations(annotations map[string]string) map[string]string {
	v1Only := [...]string{
		metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation,
		scaleDownToleranceAnnotation, scaleUpToleranceAnnotation,
	}
	copied := false
	for _, key := range v1Only {
		if _, ok := annotations[key]; !ok {
			continue
		}
		if !copied {
			annotations, copied = maps.Clone(annotations), true
		}
		delete(annotations, key)
	}
	return annotations
}

func toV1(in *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
			CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		metric := &in.Spec.Metrics[i]
		if !isCPUUtilization(metric) {
			others = append(others, metricToV1(metric))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = metric.Resource.Target.AverageUtilization
		}
	}
	// The annotation contains all current metrics, including CPU, because v1 has no field for the average CPU
	// value.
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		metric := &in.Status.CurrentMetrics[i]
		current = append(current, metricStatusToV1(metric))
		if r := metric.Resource; metric.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	out.Annotations = withoutV1Annotations(out.Annotations)
	return out, annotate(out, others, current, conditions, in.Spec.Behavior)
}

func isCPUUtilization(metric *autoscalingv2.MetricSpec) bool {
	r := metric.Resource
	return metric.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Target.AverageUtilization != nil
}

func annotate(out *autoscalingv1.HorizontalPodAutoscaler, others []autoscalingv1.MetricSpec, current []autoscalingv1.MetricStatus, conditions []autoscalingv1.HorizontalPodAutoscalerCondition, behavior *autoscalingv2.HorizontalPodAutoscalerBehavior) error {
	values := make(map[string]any, 4)
	if len(others) > 0 {
		values[metricsAnnotation] = others
	}
	if len(current) > 0 {
		values[currentMetricsAnnotation] = current
	}
	if len(conditions) > 0 {
		values[conditionsAnnotation] = conditions
	}
	if behavior != nil {
		values[behaviorAnnotation] = behaviorToV1(behavior)
	}
	if len(values) == 0 {
		return nil
	}
	annotations := maps.Clone(out.Annotations)
	if annotations == nil {
		annotations = make(map[string]string, len(values))
	}
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write annotation %s: %w", key, err)
		}
		annotations[key] = string(text)
	}
	out.Annotations = annotations
	return nil
}

func fromV1(in *autoscalingv1.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas, MaxReplicas: in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration, LastScaleTime: in.Status.LastScaleTime,
			CurrentReplicas: in.Status.CurrentReplicas, DesiredReplicas: in.Status.DesiredReplicas,
		},
	}
	// An invalid annotation is ignored, as in kube-apiserver.
	if others, ok := annotation[[]autoscalingv1.MetricSpec](in, metricsAnnotation); ok {
		for i := range others {
			out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&others[i]))
		}
	}
	if target := in.Spec.TargetCPUUtilizationPercentage; target != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuUtilization(*target))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuUtilization(defaultCPUUtilization)}
	}
	if b, ok := annotation[behavior](in, behaviorAnnotation); ok && b != (behavior{}) {
		out.Spec.Behavior = behaviorFromV1(b)
	}
	statusFromV1(in, out)
	out.Annotations = withoutV1Annotations(out.Annotations)
	return out, nil
}

func statusFromV1(in *autoscalingv1.HorizontalPodAutoscaler, out *autoscalingv2.HorizontalPodAutoscaler) {
	if current, ok := annotation[[]autoscalingv1.MetricStatus](in, currentMetricsAnnotation); ok {
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, metricStatusFromV1(&current[i]))
		}
	} else if used := in.Status.CurrentCPUUtilizationPercentage; used != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: used},
			},
		}}
	}
	if conditions, ok := annotation[[]autoscalingv1.HorizontalPodAutoscalerCondition](in, conditionsAnnotation); ok {
		for _, c := range conditions {
			out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			})
		}
	}
}

// annotation decodes the value of an annotation. ok is false if the annotation is missing or invalid.
func annotation[T any](in *autoscalingv1.HorizontalPodAutoscaler, key string) (value T, ok bool) {
	text, ok := in.Annotations[key]
	if !ok || precheck.ShapeOf(&value).CheckJSON([]byte(text), nil) != nil || json.Unmarshal([]byte(text), &value) != nil {
		var nothing T
		return nothing, false
	}
	return value, true
}

func cpuUtilization(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}
