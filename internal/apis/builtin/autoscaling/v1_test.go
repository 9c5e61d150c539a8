package autoscaling

import (
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

func quantityOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// filler creates random objects that both versions can represent. Quantities and times have a precision that
// JSON preserves, and the types of targets match their values.
func filler(seed int64) *randfill.Filler {
	return randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.3).NumElements(1, 3).Funcs(
		func(q *resource.Quantity, c randfill.Continue) { *q = *quantityOf(c.Int63n(1000) + 1) },
		func(m *metav1.Time, c randfill.Continue) { *m = metav1.NewTime(time.Unix(c.Int63n(1<<32), 0).UTC()) },
		func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} },
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			*m = metav1.ObjectMeta{Name: c.String(10)}
			if c.Bool() {
				m.Annotations = map[string]string{"mine": c.String(10)}
			}
		},
		func(s *metav1.LabelSelector, c randfill.Continue) {
			*s = metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		fillMetric, fillStatus,
	)
}

func fillMetric(m *autoscalingv2.MetricSpec, c randfill.Continue) {
	*m = autoscalingv2.MetricSpec{}
	average := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantityOf(c.Int63n(9) + 1)}
	value := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: quantityOf(c.Int63n(9) + 1)}
	either := value
	if c.Bool() {
		either = average
	}
	switch c.Intn(5) {
	case 0:
		m.Type, m.Object = autoscalingv2.ObjectMetricSourceType, &autoscalingv2.ObjectMetricSource{}
		c.Fill(m.Object)
		m.Object.Target = either
	case 1:
		m.Type, m.Pods = autoscalingv2.PodsMetricSourceType, &autoscalingv2.PodsMetricSource{}
		c.Fill(m.Pods)
		m.Pods.Target = average
	case 2:
		m.Type, m.Resource = autoscalingv2.ResourceMetricSourceType, &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceMemory, Target: average}
	case 3:
		m.Type, m.ContainerResource = autoscalingv2.ContainerResourceMetricSourceType, &autoscalingv2.ContainerResourceMetricSource{
			Name: corev1.ResourceCPU, Container: c.String(5), Target: cpuUtilization(c.Int31()).Resource.Target,
		}
	case 4:
		m.Type, m.External = autoscalingv2.ExternalMetricSourceType, &autoscalingv2.ExternalMetricSource{}
		c.Fill(m.External)
		m.External.Target = either
	}
}

func fillStatus(m *autoscalingv2.MetricStatus, c randfill.Continue) {
	*m = autoscalingv2.MetricStatus{}
	average := autoscalingv2.MetricValueStatus{AverageValue: quantityOf(c.Int63n(9) + 1)}
	value := autoscalingv2.MetricValueStatus{Value: quantityOf(c.Int63n(9) + 1)}
	switch c.Intn(5) {
	case 0:
		m.Type, m.Object = autoscalingv2.ObjectMetricSourceType, &autoscalingv2.ObjectMetricStatus{}
		c.Fill(m.Object)
		m.Object.Current = value
	case 1:
		m.Type, m.Pods = autoscalingv2.PodsMetricSourceType, &autoscalingv2.PodsMetricStatus{}
		c.Fill(m.Pods)
		m.Pods.Current = average
	case 2:
		m.Type, m.Resource = autoscalingv2.ResourceMetricSourceType, &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: average}
		c.Fill(&m.Resource.Current.AverageUtilization)
	case 3:
		m.Type, m.ContainerResource = autoscalingv2.ContainerResourceMetricSourceType, &autoscalingv2.ContainerResourceMetricStatus{
			Name: corev1.ResourceCPU, Container: c.String(5), Current: average,
		}
	case 4:
		m.Type, m.External = autoscalingv2.ExternalMetricSourceType, &autoscalingv2.ExternalMetricStatus{}
		c.Fill(m.External)
		m.External.Current = value
	}
}

// FuzzRoundTrip converts autoscalers to v1, back to v2, and to v1 again.
func FuzzRoundTrip(f *testing.F) {
	for seed := range int64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		fill := filler(seed)
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		fill.Fill(hpa)
		// The conversion from v1 appends the metric that has its own field last.
		if seed%2 == 0 || len(hpa.Spec.Metrics) == 0 {
			hpa.Spec.Metrics = append(hpa.Spec.Metrics, cpuUtilization(int32(seed&0xff)))
		}
		if hpa.Spec.Behavior != nil && *hpa.Spec.Behavior == (autoscalingv2.HorizontalPodAutoscalerBehavior{}) {
			hpa.Spec.Behavior = nil
		}
		shown, err := toV1(hpa.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		back, err := fromV1(shown.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(hpa, back) {
			t.Errorf("converting from v2 to v1 and back changed the object:\n%s", cmp.Diff(hpa, back))
		}
		again, err := toV1(back)
		if err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(shown, again) {
			t.Errorf("converting from v1 to v2 and back changed the object:\n%s", cmp.Diff(shown, again))
		}
	})
}

// FuzzAnnotations converts v1 autoscalers whose annotations contain arbitrary text.
func FuzzAnnotations(f *testing.F) {
	f.Add(`[{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"10"}}]`, `{"ScaleDown":{"Policies":[{"Type":"Pods","Value":1}]}}`)
	f.Add(`{`, `null`)
	f.Fuzz(func(t *testing.T, metrics, behavior string) {
		in := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			metricsAnnotation: metrics, currentMetricsAnnotation: metrics, conditionsAnnotation: metrics, behaviorAnnotation: behavior,
		}}}
		hpa, err := fromV1(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(hpa.Annotations) > 0 || len(hpa.Spec.Metrics) == 0 {
			t.Errorf("the converted object has annotations or lacks metrics: %+v", hpa)
		}
		if _, err := toV1(hpa); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnnotations compares annotations with those recorded from kube-apiserver.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	percent, window, selected := int32(70), int32(60), autoscalingv2.MaxChangePolicySelect
	hpa := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		Metrics: []autoscalingv2.MetricSpec{
			{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "qps"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: quantityOf(10)},
			}},
			cpuUtilization(percent),
		},
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: &window, SelectPolicy: &selected,
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 1, PeriodSeconds: 30}},
		}},
	}}
	shown, err := toV1(hpa)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		metricsAnnotation: `[{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"10"}}]`,
		behaviorAnnotation: `{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Max",` +
			`"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":30}],"Tolerance":null}}`,
	}
	if diff := cmp.Diff(want, shown.Annotations); diff != "" {
		t.Error(diff)
	}
	if got := shown.Spec.TargetCPUUtilizationPercentage; got == nil || *got != percent {
		t.Errorf("targetCPUUtilizationPercentage is %v", got)
	}
}

// TestDefaultMetric checks that a v1 autoscaler without metrics is converted to one with a CPU utilization
// metric.
func TestDefaultMetric(t *testing.T) {
	t.Parallel()
	hpa, err := fromV1(&autoscalingv1.HorizontalPodAutoscaler{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]autoscalingv2.MetricSpec{cpuUtilization(80)}, hpa.Spec.Metrics); diff != "" {
		t.Error(diff)
	}
}

// TestAnnotationWithAbsurdQuantity checks that an annotation with an invalid quantity is ignored.
func TestAnnotationWithAbsurdQuantity(t *testing.T) {
	t.Parallel()
	in := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		metricsAnnotation: `[{"type":"Pods","pods":{"metricName":"m","TARGETaverageValue":"1e-999999999"}}]`,
	}}}
	if metrics, ok := annotation[[]autoscalingv1.MetricSpec](in, metricsAnnotation); ok {
		t.Errorf("the invalid annotation was decoded as %v", metrics)
	}
}
