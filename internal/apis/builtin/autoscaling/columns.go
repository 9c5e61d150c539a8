package autoscaling

import (
	"fmt"
	"strconv"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// shownMetrics is the maximum number of metrics in a table cell.
const shownMetrics = 2

func columns() *builtin.Columns[*autoscalingv2.HorizontalPodAutoscaler] {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return &builtin.Columns[*autoscalingv2.HorizontalPodAutoscaler]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Reference", "string", spec["scaleTargetRef"]),
			builtin.Column("Targets", "string", spec["metrics"]),
			builtin.Column("MinPods", "string", spec["minReplicas"]),
			builtin.Column("MaxPods", "string", spec["maxReplicas"]),
			builtin.Column("Replicas", "string", status["currentReplicas"]),
			builtin.AgeColumn(),
		},
		Cells: func(hpa *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
			minimum := builtin.Unset
			if hpa.Spec.MinReplicas != nil {
				minimum = strconv.Itoa(int(*hpa.Spec.MinReplicas))
			}
			target := &hpa.Spec.ScaleTargetRef
			return []any{
				hpa.Name, target.Kind + "/" + target.Name, metricsText(hpa), minimum, int64(hpa.Spec.MaxReplicas),
				int64(hpa.Status.CurrentReplicas), builtin.Age(hpa.CreationTimestamp, now),
			}
		},
	}
}

// metricsText formats each metric as CURRENT/TARGET. A metric and its status have the same index.
func metricsText(hpa *autoscalingv2.HorizontalPodAutoscaler) string {
	if len(hpa.Spec.Metrics) == 0 {
		return builtin.None
	}
	var texts []string
	for i := range hpa.Spec.Metrics {
		var current autoscalingv2.MetricStatus
		if i < len(hpa.Status.CurrentMetrics) {
			current = hpa.Status.CurrentMetrics[i]
		}
		texts = append(texts, metricText(&hpa.Spec.Metrics[i], &current))
	}
	return builtin.JoinFirst(texts, ", ", shownMetrics)
}

func metricText(metric *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	var current autoscalingv2.MetricValueStatus
	switch {
	case metric.Type == autoscalingv2.ExternalMetricSourceType && metric.External != nil:
		if status.External != nil {
			current = status.External.Current
		}
		return valueText(&metric.External.Target, &current)
	case metric.Type == autoscalingv2.ObjectMetricSourceType && metric.Object != nil:
		if status.Object != nil {
			current = status.Object.Current
		}
		return valueText(&metric.Object.Target, &current)
	case metric.Type == autoscalingv2.PodsMetricSourceType && metric.Pods != nil:
		if status.Pods != nil {
			current = status.Pods.Current
		}
		return quantityText(current.AverageValue) + "/" + metric.Pods.Target.AverageValue.String()
	case metric.Type == autoscalingv2.ResourceMetricSourceType && metric.Resource != nil:
		if status.Resource != nil {
			current = status.Resource.Current
		}
		return fmt.Sprintf("%s: %s", metric.Resource.Name, useText(&metric.Resource.Target, &current))
	case metric.Type == autoscalingv2.ContainerResourceMetricSourceType && metric.ContainerResource != nil:
		if status.ContainerResource != nil {
			current = status.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", metric.ContainerResource.Name, useText(&metric.ContainerResource.Target, &current))
	}
	return "<unknown type>"
}

// valueText formats a metric that does not measure pods.
func valueText(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return fmt.Sprintf("%s/%s (avg)", quantityText(current.AverageValue), target.AverageValue)
	}
	return quantityText(current.Value) + "/" + target.Value.String()
}

// useText formats the utilization of a compute resource.
func useText(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return quantityText(current.AverageValue) + "/" + target.AverageValue.String()
	}
	is, wanted := builtin.Unknown, "<auto>"
	if current.AverageUtilization != nil {
		is = fmt.Sprintf("%d%%", *current.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		wanted = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return is + "/" + wanted
}

func quantityText(q *resource.Quantity) string {
	if q == nil {
		return builtin.Unknown
	}
	return q.String()
}
