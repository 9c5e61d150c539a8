package autoscaling

import (
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

type (
	hpaCase  = validationtest.Case[autoscalingv2.HorizontalPodAutoscaler]
	hpaRules = validationtest.Rules[autoscalingv2.HorizontalPodAutoscaler]
)

func newHPA() *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}, MaxReplicas: 1,
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{},
	}}
	defaultV2(hpa)
	return hpa
}

func measured(version string) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: version, Kind: "Service", Name: "s"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "m"},
		Target:          autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: new(resource.MustParse("1"))},
	}}
}

func setTarget(version, kind string) func(*autoscalingv2.HorizontalPodAutoscaler) {
	return func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
		hpa.Spec.ScaleTargetRef.APIVersion, hpa.Spec.ScaleTargetRef.Kind = version, kind
	}
}

func setMetrics(metrics ...autoscalingv2.MetricSpec) func(*autoscalingv2.HorizontalPodAutoscaler) {
	return func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.Metrics = metrics }
}

func TestRules(t *testing.T) {
	t.Parallel()
	const noGroup = "spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group"
	zero := func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.MinReplicas = new(int32(0)) }
	hpaRules(validate).Create(t, newHPA, []hpaCase{
		{Name: "to zero", Change: func(hpa *autoscalingv2.HorizontalPodAutoscaler) { zero(hpa); setMetrics(measured("v1"))(hpa) }},
		{Name: "to zero by the pods", Change: zero, Want: []string{"spec.metrics: Forbidden: must specify at least one Object or External metric"}},
		{Name: "of the core group", Change: setTarget("v1", "Pod"), Want: []string{noGroup}},
		{Name: "of the core group's only kind", Change: setTarget("v1", "ReplicationController")},
		{Name: "a version that cannot be", Change: setTarget("a/b/c", "ReplicationController"), Want: []string{"unexpected GroupVersion string: a/b/c"}},
		{Name: "measured in a version that cannot be", Change: setMetrics(measured("a/b/c")),
			Want: []string{"spec.metrics[0].object.describedObject.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"}},
		{Name: "another source", Change: func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			setMetrics(measured("v1"))(hpa)
			hpa.Spec.Metrics[0].Type = autoscalingv2.PodsMetricSourceType
		}, Want: []string{"spec.metrics[0].pods: Required value"}},
		{Name: "longest times", Change: func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			up := hpa.Spec.Behavior.ScaleUp
			up.StabilizationWindowSeconds, up.Policies[0].PeriodSeconds = new(int32(3600)), 1800
		}},
		{Name: "a tolerance below zero", Change: func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Spec.Behavior.ScaleDown.Tolerance = new(resource.MustParse("-0.1"))
		}, Want: []string{`spec.behavior.scaleDown.tolerance: Invalid value: "-100m": must be greater than or equal to 0`}},
	})
}

func TestUpdateRules(t *testing.T) {
	t.Parallel()
	old := func() *autoscalingv2.HorizontalPodAutoscaler {
		hpa := newHPA()
		setTarget("v1", "Pod")(hpa)
		setMetrics(measured("a/b/c"))(hpa)
		return hpa
	}
	hpaRules(validate).Update(t, old, []hpaCase{
		{Name: "another version that cannot be", Change: setMetrics(measured("a/b/d"))},
		{Name: "another pod", Change: func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Spec.ScaleTargetRef.Name = "e" }},
		{Name: "another kind", Change: setTarget("v1", "Node"), Want: []string{"apiVersion must specify API group"}},
	})
	hpaRules(validate).Update(t, newHPA, []hpaCase{
		{Name: "measured in a version that cannot be", Change: setMetrics(measured("a/b/c")), Want: []string{"unexpected GroupVersion string: a/b/c"}},
	})
}

// TestScaleToZeroByGate checks that, if the gate is disabled, an autoscaler may scale to zero only if it
// already did so before.
func TestScaleToZeroByGate(t *testing.T) {
	t.Parallel()
	gates, err := feature.Defaults().Parse("HPAScaleToZero=false")
	if err != nil {
		t.Fatal(err)
	}
	hpa := newHPA()
	hpa.Spec.MinReplicas = new(int32(0))
	setMetrics(measured("v1"))(hpa)
	for _, tt := range []struct {
		old  *autoscalingv2.HorizontalPodAutoscaler
		want []string
	}{
		{nil, []string{"spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"}},
		{newHPA(), []string{"spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"}},
		{hpa, nil},
	} {
		if got := validationtest.Errors(t, gates, func(f validation.Field) { validate(f, hpa, tt.old) }); !slices.Equal(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestValidObjectsDoNotAllocate(t *testing.T) {
	hpa, validator := newHPA(), validation.NewValidator(feature.Defaults())
	hpa.Spec.Metrics = append(hpa.Spec.Metrics, measured("apps/v1"))
	alloctest.None(t, "HorizontalPodAutoscaler", func() {
		if errs := validator.Validate(t.Context(), func(f validation.Field) { validate(f, hpa, hpa) }); len(errs) > 0 {
			t.Fatal(errs)
		}
	})
}
