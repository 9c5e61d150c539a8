package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// validateMetrics validates metrics. If the minimum number of replicas is 0, it requires an object or external
// metric, because pod metrics have no value while there are no pods.
func validateMetrics(f validation.Field, spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	measurable := !scalesToZero(spec)
	for i := range spec.Metrics {
		metric := &spec.Metrics[i]
		validateMetric(f.Index(i), metric)
		if metric.Type == autoscalingv2.ObjectMetricSourceType || metric.Type == autoscalingv2.ExternalMetricSourceType {
			measurable = true
		}
	}
	if !measurable {
		f.Forbidden("must specify at least one Object or External metric to support scaling to zero replicas")
	}
}

// validateObjectVersions validates the API versions of objects in object metrics. Stored autoscalers may
// violate this rule, because they may be older than it.
func validateObjectVersions(f validation.Field, metrics []autoscalingv2.MetricSpec) {
	for i := range metrics {
		if metrics[i].Type != autoscalingv2.ObjectMetricSourceType || metrics[i].Object == nil {
			continue
		}
		version := metrics[i].Object.DescribedObject.APIVersion
		if _, err := schema.ParseGroupVersion(version); err != nil {
			f.Index(i).Child("object").Child("describedObject").Child("apiVersion").Invalid(version, err.Error())
		}
	}
}

// validateMetric requires that the source matches the type of the metric. As in kube-apiserver, if several
// sources are set, only the first one is validated.
func validateMetric(f validation.Field, metric *autoscalingv2.MetricSpec) {
	if metric.Type == "" {
		f.Child("type").Required("must specify a metric source type")
	}
	validation.OneOf(f.Child("type"), metric.Type, autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	validateSource(f, metric)
	sources := [...]struct {
		name string
		kind autoscalingv2.MetricSourceType
		set  bool
	}{
		{"object", autoscalingv2.ObjectMetricSourceType, metric.Object != nil},
		{"external", autoscalingv2.ExternalMetricSourceType, metric.External != nil},
		{"pods", autoscalingv2.PodsMetricSourceType, metric.Pods != nil},
		{"resource", autoscalingv2.ResourceMetricSourceType, metric.Resource != nil},
		{"containerResource", autoscalingv2.ContainerResourceMetricSourceType, metric.ContainerResource != nil},
	}
	set := 0
	for _, source := range sources {
		if source.set {
			set++
		}
	}
	for _, source := range sources {
		switch expected := source.kind == metric.Type; {
		case expected && !source.set:
			f.Child(source.name).Required("must populate information for the given metric source")
		case !expected && source.set && set > 1:
			f.Child(source.name).Forbidden("must populate the given metric source only")
		}
	}
}

func validateSource(f validation.Field, metric *autoscalingv2.MetricSpec) {
	switch {
	case metric.Object != nil:
		validateObject(f.Child("object"), metric.Object)
	case metric.External != nil:
		validateExternal(f.Child("external"), metric.External)
	case metric.Pods != nil:
		validatePods(f.Child("pods"), metric.Pods)
	case metric.Resource != nil:
		if metric.Resource.Name == "" {
			f.Child("resource").Child("name").Required("must specify a resource name")
		}
		validateUse(f.Child("resource").Child("target"), &metric.Resource.Target)
	case metric.ContainerResource != nil:
		validateContainerResource(f.Child("containerResource"), metric.ContainerResource)
	}
}

func validateObject(f validation.Field, source *autoscalingv2.ObjectMetricSource) {
	validateReference(f.Child("describedObject"), &source.DescribedObject)
	validateMetricName(f.Child("metric").Child("name"), source.Metric.Name)
	target, at := &source.Target, f.Child("target")
	validateTarget(at, target)
	if target.Value == nil && target.AverageValue == nil {
		at.Child("averageValue").Required("must set either a target value or averageValue")
	}
}

func validateExternal(f validation.Field, source *autoscalingv2.ExternalMetricSource) {
	validateMetricName(f.Child("metric").Child("name"), source.Metric.Name)
	target, at := &source.Target, f.Child("target")
	validateTarget(at, target)
	switch {
	case target.Value == nil && target.AverageValue == nil:
		at.Child("averageValue").Required("must set either a target value for metric or a per-pod target")
	case target.Value != nil && target.AverageValue != nil:
		at.Child("value").Forbidden("may not set both a target value for metric and a per-pod target")
	}
}

func validatePods(f validation.Field, source *autoscalingv2.PodsMetricSource) {
	validateMetricName(f.Child("metric").Child("name"), source.Metric.Name)
	validateTarget(f.Child("target"), &source.Target)
	if source.Target.AverageValue == nil {
		f.Child("target").Child("averageValue").Required("must specify a positive target averageValue")
	}
}

func validateContainerResource(f validation.Field, source *autoscalingv2.ContainerResourceMetricSource) {
	if source.Name == "" {
		f.Child("name").Required("must specify a resource name")
	} else {
		podspec.ValidateContainerResource(f.Child("name"), source.Name)
	}
	if source.Container == "" {
		f.Child("container").Required("must specify a container")
	} else {
		f.Child("container").DNSLabel(source.Container)
	}
	validateUse(f.Child("target"), &source.Target)
}

func validateMetricName(f validation.Field, name string) {
	if name == "" {
		f.Required("must specify a metric name")
	} else {
		f.PathSegment(name)
	}
}

// validateUse validates the target for the utilization of a compute resource.
func validateUse(f validation.Field, target *autoscalingv2.MetricTarget) {
	validateTarget(f, target)
	switch {
	case target.AverageUtilization == nil && target.AverageValue == nil:
		f.Child("averageUtilization").Required("must set either a target raw value or a target utilization")
	case target.AverageUtilization != nil && target.AverageValue != nil:
		f.Child("averageValue").Forbidden("may not set both a target raw value and a target utilization")
	}
}

func validateTarget(f validation.Field, target *autoscalingv2.MetricTarget) {
	switch target.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	case "":
		f.Child("type").Required("must specify a metric target type")
		fallthrough
	default:
		f.Child("type").Invalid(target.Type, "must be either Utilization, Value, or AverageValue")
	}
	validateAmount(f.Child("value"), target.Value)
	validateAmount(f.Child("averageValue"), target.AverageValue)
	if n := target.AverageUtilization; n != nil && *n < 1 {
		f.Child("averageUtilization").Invalid(*n, "must be greater than 0")
	}
}

func validateAmount(f validation.Field, amount *resource.Quantity) {
	if amount != nil && amount.Sign() <= 0 {
		f.Invalid(amount, "must be positive")
	}
}
