package core

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/feature"
)

type nodeCase = validationtest.Case[corev1.Node]

func newNode() *corev1.Node {
	return &corev1.Node{
		Spec: corev1.NodeSpec{
			PodCIDR: "10.1.0.0/24", PodCIDRs: []string{"10.1.0.0/24", "fd00:1::/64"}, ProviderID: "cloud://1",
			Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "a", Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.NodeStatus{
			Capacity:         corev1.ResourceList{"cpu": resource.MustParse("1500m"), "example.com/gpu": resource.MustParse("2")},
			Addresses:        []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			DeclaredFeatures: []string{"A", "A/b", "B"},
		},
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	rules := validationtest.Rules[corev1.Node](validateNode)
	rules.Create(t, newNode, []nodeCase{
		{Name: "two of a family", Change: func(n *corev1.Node) { n.Spec.PodCIDRs[1] = "10.1.1.0/24" }, Want: []string{"spec.podCIDRs: Invalid value"}},
		{Name: "three", Change: func(n *corev1.Node) { n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, "10.1.1.0/24") }, Want: []string{"spec.podCIDRs: Invalid value"}},
		{Name: "one that is none", Change: func(n *corev1.Node) { n.Spec.PodCIDRs[1] = "x" }, Want: []string{
			"spec.podCIDRs[1]: Invalid value", "invalid CIDR[1]: <nil> (invalid CIDR address: x)", "spec.podCIDRs: Invalid value",
		}},
		{Name: "an address within", Change: func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.1.0.1/24"} }, Want: []string{"spec.podCIDRs[0]: Invalid value"}},
		{Name: "a taint twice", Change: func(n *corev1.Node) { n.Spec.Taints[1] = n.Spec.Taints[0] },
			Want: []string{"metadata.taints[1]: Duplicate value"}},
		{Name: "a taint without an effect", Change: func(n *corev1.Node) { n.Spec.Taints[0] = corev1.Taint{Key: "a b", Value: "x y"} },
			Want: []string{"metadata.taints[0].key", "metadata.taints[0].value", "metadata.taints[0].effect: Required value"}},
		{Name: "half a GPU", Change: func(n *corev1.Node) { n.Status.Capacity["example.com/gpu"] = resource.MustParse("500m") },
			Want: []string{`status.capacity.example.com/gpu: Invalid value: "500m": must be an integer`}},
		{Name: "less than nothing", Change: func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("-1")} },
			Want: []string{"status.allocatable.cpu: Invalid value"}},
		{Name: "taints in an annotation", Change: func(n *corev1.Node) {
			n.Annotations = map[string]string{corev1.TaintsAnnotationKey: `[{"key":"a","effect":"x"}]`}
		}, Want: []string{"metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].effect: Unsupported value"}},
		{Name: "annotations that are not JSON", Change: func(n *corev1.Node) {
			n.Annotations = map[string]string{corev1.TaintsAnnotationKey: "x", corev1.PreferAvoidPodsAnnotationKey: "x"}
		}, Want: []string{"metadata.annotations: Invalid value", "metadata.annotations.AvoidPods: Invalid value"}},
		{Name: "pods to avoid", Change: func(n *corev1.Node) {
			n.Annotations = map[string]string{corev1.PreferAvoidPodsAnnotationKey: `{"preferAvoidPods":[{},{"podSignature":{"podController":{"name":"x"}}}]}`}
		}, Want: []string{"preferAvoidPods[0].PodSignature: Required value", "preferAvoidPods[1].PodSignature.PodController: Invalid value: false"}},
		{Name: "an address twice", Change: func(n *corev1.Node) { n.Status.Addresses = slices.Repeat(n.Status.Addresses, 2) }},
	})
	rules.Update(t, newNode, []nodeCase{
		{Name: "what may change", Change: func(n *corev1.Node) { n.Spec.Unschedulable, n.Spec.Taints = true, nil }},
		{Name: "what was set once", Change: func(n *corev1.Node) {
			n.Spec.PodCIDRs, n.Spec.ProviderID, n.Spec.DoNotUseExternalID = nil, "", "x"
		}, Want: []string{"spec.podCIDRs: Forbidden", "spec.providerID: Forbidden", "spec.externalID: Forbidden: may not be updated"}},
	})
	rules.Update(t, func() *corev1.Node { return &corev1.Node{} }, []nodeCase{
		{Name: "what is set now", Change: func(n *corev1.Node) { n.Spec.PodCIDRs, n.Spec.ProviderID = []string{"10.0.0.0/24"}, "x" }},
	})
	rules.Update(t, func() *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: []string{"010.0.0.0/24", "10.0.1.0/24"}}} // stored before the rules existed
	}, nil)
}

func TestNodeStatuses(t *testing.T) {
	t.Parallel()
	source := func(change func(*corev1.ConfigMapNodeConfigSource)) *corev1.NodeConfigSource {
		s := &corev1.ConfigMapNodeConfigSource{Namespace: "ns", Name: "n", UID: "u", ResourceVersion: "1", KubeletConfigKey: "k"}
		change(s)
		return &corev1.NodeConfigSource{ConfigMap: s}
	}
	validationtest.Rules[corev1.Node](validateNodeStatus).Update(t, newNode, []nodeCase{
		{Name: "an address twice", Change: func(n *corev1.Node) { n.Status.Addresses = slices.Repeat(n.Status.Addresses, 2) },
			Want: []string{"status.addresses[1]: Duplicate value"}},
		{Name: "features without order", Change: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"B", "A", "A", "a"} }, Want: []string{
			"status.declaredFeatures[1]: Invalid value: \"A\": list must be sorted alphabetically", "status.declaredFeatures[2]: Duplicate value",
			"status.declaredFeatures[3]: Invalid value: \"a\": invalid feature name",
		}},
		{Name: "names of features", Change: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"", "A/", "A/1", "A//b", "A1/bC/D", "a"} }, Want: []string{
			"declaredFeatures[0]", "declaredFeatures[1]", "declaredFeatures[2]", "declaredFeatures[3]", "declaredFeatures[3]", "declaredFeatures[5]",
		}},
		{Name: "a source", Change: func(n *corev1.Node) {
			n.Status.Config = &corev1.NodeConfigStatus{Active: source(func(*corev1.ConfigMapNodeConfigSource) {})}
		}},
		{Name: "no source", Change: func(n *corev1.Node) { n.Status.Config = &corev1.NodeConfigStatus{Assigned: &corev1.NodeConfigSource{}} },
			Want: []string{"status.config.assigned: Invalid value: {}: exactly one reference subfield must be non-nil"}},
		{Name: "an empty source", Change: func(n *corev1.Node) {
			n.Status.Config = &corev1.NodeConfigStatus{LastKnownGood: source(func(s *corev1.ConfigMapNodeConfigSource) { *s = corev1.ConfigMapNodeConfigSource{} })}
		}, Want: []string{"configMap.uid: Required", "configMap.resourceVersion: Required", "configMap.namespace: Required", "configMap.name: Required", "kubeletConfigKey: Required"}},
		{Name: "a source that is wanted", Change: func(n *corev1.Node) { n.Spec.ConfigSource = source(func(*corev1.ConfigMapNodeConfigSource) {}) },
			Want: []string{"configMap.uid: Forbidden: uid must not be set in spec", "configMap.resourceVersion: Forbidden"}},
	})
}

// TestNodeFields checks that the fields of dynamic kubelet configuration are dropped unless they are already
// stored.
func TestNodeFields(t *testing.T) {
	t.Parallel()
	op := &builtin.Operation{Env: &builtin.Env{Gates: feature.Defaults()}}
	full := func() *corev1.Node {
		return &corev1.Node{
			Spec:   corev1.NodeSpec{ConfigSource: &corev1.NodeConfigSource{}},
			Status: corev1.NodeStatus{Config: &corev1.NodeConfigStatus{}},
		}
	}
	created, kept := full(), full()
	prepareNode(op, created)
	prepareNodeUpdate(op, kept, full())
	prepareNodeStatus(op, kept, full())
	for name, diff := range map[string]string{
		"created": cmp.Diff(&corev1.Node{}, created), "kept": cmp.Diff(full(), kept),
	} {
		if diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	validationtest.Rules[corev1.Node](validateNode).Create(t, newNode, []nodeCase{
		{Name: "what the gate guards", Change: func(n *corev1.Node) { n.Spec.PodPreemptionPolicy = &corev1.NodePodPreemptionPolicy{} },
			Want: []string{"spec.podPreemptionPolicy: Forbidden"}},
	})
}
