package ownership

import (
	"math/rand/v2"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
)

// TestLossyEncodings updates objects with equal values, and with values that differ from the live object
// but have the same encoding.
func TestLossyEncodings(t *testing.T) {
	t.Parallel()
	fixtures := map[string]fixture{}
	for _, f := range allFixtures(t) {
		fixtures[f.gvk.String()] = f
	}
	pod := func(change func(*corev1.PodSpec)) func(codec.Object) {
		return func(obj codec.Object) { change(&obj.(*corev1.Pod).Spec) }
	}
	const pods, rules, scalers = "/v1, Kind=Pod", "authorization.k8s.io/v1, Kind=SelfSubjectRulesReview", "autoscaling/v2, Kind=HorizontalPodAutoscaler"
	for name, c := range map[string]struct {
		kind       string
		live, next func(codec.Object)
		managers   int
	}{
		"null and an empty list": {rules,
			func(obj codec.Object) {
				obj.(*authorizationv1.SelfSubjectRulesReview).Status.ResourceRules = nil
			},
			func(obj codec.Object) {
				obj.(*authorizationv1.SelfSubjectRulesReview).Status.ResourceRules = []authorizationv1.ResourceRule{}
			}, 2},
		"an empty list that is omitted": {pods,
			pod(func(s *corev1.PodSpec) { s.Tolerations = nil }),
			pod(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{} }), 1},
		"an empty list in a list of projections": {pods,
			pod(func(s *corev1.PodSpec) {
				s.Volumes[0].Projected.Sources = []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{}}}
			}),
			pod(func(s *corev1.PodSpec) {
				s.Volumes[0].Projected.Sources = []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{Items: []corev1.KeyToPath{}}}}
			}), 2},
		"an empty list in a selector": {pods,
			pod(func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			}),
			pod(func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{}}
			}), 1},
		"a quantity in two ways": {pods,
			pod(func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits["cpu"] = resource.MustParse("1") }),
			pod(func(s *corev1.PodSpec) { s.Containers[0].Resources.Limits["cpu"] = resource.MustParse("1000m") }), 1},
		"a quantity in two ways, in a list": {scalers,
			func(obj codec.Object) {
				obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec.Metrics[0].Object.Target.Value = new(resource.MustParse("1"))
			},
			func(obj codec.Object) {
				obj.(*autoscalingv2.HorizontalPodAutoscaler).Spec.Metrics[0].Object.Target.Value = new(resource.MustParse("1000m"))
			}, 2},
		"nothing": {pods, pod(func(*corev1.PodSpec) {}), pod(func(*corev1.PodSpec) {}), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fixtures[c.kind]
			whole := pathsOf(t, f)[2]
			w := &writer{f: f, mutator: mutator{rand.New(rand.NewPCG(1, 1))}}
			live := copyOf(f.obj)
			c.live(live)
			live.SetUID("")
			w.compare(t, whole, f.empty(), live, "first")
			next := copyOf(w.live)
			c.next(next)
			w.compare(t, whole, w.live, next, "second")
			if w.covered != 2 || len(w.live.GetManagedFields()) != c.managers {
				t.Errorf("%d writes are covered, managers: %s", w.covered, show(t, w.live.GetManagedFields()))
			}
		})
	}
}
