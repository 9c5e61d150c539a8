package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/rest"
)

// newPod returns a pod that is assigned to node. If node is empty, the pod is unscheduled.
func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

func TestPodOnCreate(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	sent := newPod("p", "")
	sent.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}
	pod := a.create("v1 pods", sent).(*corev1.Pod)
	if want := (corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}); !cmp.Equal(want, pod.Status) {
		t.Errorf("status is %+v, want %+v", pod.Status, want)
	}
	if pod.Generation != 1 {
		t.Errorf("generation is %d, want 1", pod.Generation)
	}
	gated := newPod("gated", "")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}}
	conditions := a.create("v1 pods", gated).(*corev1.Pod).Status.Conditions
	if len(conditions) != 1 || conditions[0].Reason != corev1.PodReasonSchedulingGated || conditions[0].LastTransitionTime.IsZero() {
		t.Errorf("conditions of a gated pod are %+v", conditions)
	}
}

func TestPodLabelKeysOnCreate(t *testing.T) {
	t.Parallel()
	sent := newPod("p", "")
	sent.Labels = map[string]string{"app": "x", "tier": "y"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	sent.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "a", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector.DeepCopy(), MatchLabelKeys: []string{"tier", "absent"}},
		{MaxSkew: 1, TopologyKey: "b", WhenUnsatisfiable: corev1.DoNotSchedule},
	}
	sent.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: "a", LabelSelector: selector.DeepCopy(), MatchLabelKeys: []string{"tier"}, MismatchLabelKeys: []string{"app"},
		}}},
	}}
	pod := newAPI(t).create("v1 pods", sent).(*corev1.Pod)
	is := metav1.LabelSelectorRequirement{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"y"}}
	isNot := metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}
	spread := pod.Spec.TopologySpreadConstraints
	if diff := cmp.Diff([]metav1.LabelSelectorRequirement{is}, spread[0].LabelSelector.MatchExpressions); diff != "" {
		t.Errorf("spread (-want +got):\n%s", diff)
	}
	if spread[1].LabelSelector != nil {
		t.Errorf("a nil selector was replaced with %v", spread[1].LabelSelector)
	}
	term := pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
	if diff := cmp.Diff([]metav1.LabelSelectorRequirement{is, isNot}, term.LabelSelector.MatchExpressions); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
}

func TestQOSClass(t *testing.T) {
	t.Parallel()
	container := func(requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	full, other := resources("1", "1Gi"), corev1.ResourceList{"example.com/x": resource.MustParse("1")}
	tests := map[string]struct {
		spec corev1.PodSpec
		want corev1.PodQOSClass
	}{
		"nothing":    {corev1.PodSpec{Containers: []corev1.Container{{}}}, corev1.PodQOSBestEffort},
		"zero":       {corev1.PodSpec{Containers: []corev1.Container{container(resources("0", ""), nil)}}, corev1.PodQOSBestEffort},
		"other":      {corev1.PodSpec{Containers: []corev1.Container{container(other, other)}}, corev1.PodQOSBestEffort},
		"request":    {corev1.PodSpec{Containers: []corev1.Container{container(resources("1", ""), nil)}}, corev1.PodQOSBurstable},
		"equal":      {corev1.PodSpec{Containers: []corev1.Container{container(full, full)}}, corev1.PodQOSGuaranteed},
		"one only":   {corev1.PodSpec{Containers: []corev1.Container{container(full, full), {}}}, corev1.PodQOSBurstable},
		"init":       {corev1.PodSpec{Containers: []corev1.Container{container(full, full)}, InitContainers: []corev1.Container{{}}}, corev1.PodQOSBurstable},
		"less":       {corev1.PodSpec{Containers: []corev1.Container{container(resources("500m", "1Gi"), full)}}, corev1.PodQOSBurstable},
		"cpu":        {corev1.PodSpec{Containers: []corev1.Container{container(resources("1", ""), resources("1", ""))}}, corev1.PodQOSBurstable},
		"other unit": {corev1.PodSpec{Containers: []corev1.Container{container(resources("1000m", "1024Mi"), full)}}, corev1.PodQOSGuaranteed},
		"of the pod": {corev1.PodSpec{Containers: []corev1.Container{{}}, Resources: &corev1.ResourceRequirements{Requests: full, Limits: full}}, corev1.PodQOSGuaranteed},
	}
	a := newAPI(t)
	for name, test := range tests {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "p-"}, Spec: test.spec}
		for kind, containers := range map[string][]corev1.Container{"c": pod.Spec.Containers, "i": pod.Spec.InitContainers} {
			for i := range containers {
				containers[i].Name, containers[i].Image = fmt.Sprint(kind, i), "image"
			}
		}
		if got := a.create("v1 pods", pod).(*corev1.Pod).Status.QOSClass; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestPodStatusWrite(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	created := a.create("v1 pods", newPod("p", "")).(*corev1.Pod)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}
	pod := mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{owner}
		pod.Spec.NodeName = "elsewhere"
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 1}
	})
	if len(pod.OwnerReferences) > 0 || pod.Spec.NodeName != "" {
		t.Errorf("/status wrote owners %v, node %q", pod.OwnerReferences, pod.Spec.NodeName)
	}
	want := corev1.PodStatus{Phase: corev1.PodRunning, ObservedGeneration: 1, QOSClass: corev1.PodQOSBestEffort}
	if !cmp.Equal(want, pod.Status) || pod.Generation != created.Generation {
		t.Errorf("status %+v of generation %d", pod.Status, pod.Generation)
	}
	pod = mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) { pod.Status.ObservedGeneration = 0 })
	if pod.Status.ObservedGeneration != 1 {
		t.Errorf("observed generation is %d, want 1", pod.Status.ObservedGeneration)
	}
	pod = mustUpdate(a, "v1 pods", in("ns", "p"), func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
	if pod.Status.Phase != corev1.PodRunning {
		t.Errorf("the main resource wrote phase %s", pod.Status.Phase)
	}
}

func TestPodDeletion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node  string
		grace *int64 // grace period in the spec
		asked *int64
		phase corev1.PodPhase
		want  int64 // 0 means that the pod is deleted immediately
	}{
		"unscheduled":     {},
		"scheduled":       {node: "n", want: 30},
		"own period":      {node: "n", grace: ptr(int64(7)), want: 7},
		"asked":           {node: "n", grace: ptr(int64(7)), asked: ptr(int64(3)), want: 3},
		"asked for none":  {node: "n", asked: ptr(int64(0))},
		"negative":        {node: "n", grace: ptr(int64(-5)), want: 1},
		"failed":          {node: "n", phase: corev1.PodFailed},
		"succeeded":       {node: "n", phase: corev1.PodSucceeded, asked: ptr(int64(9))},
		"running":         {node: "n", phase: corev1.PodRunning, want: 30},
		"none of its own": {node: "n", grace: ptr(int64(0))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			pod := newPod("p", test.node)
			pod.Spec.TerminationGracePeriodSeconds = test.grace
			a.create("v1 pods", pod)
			if test.phase != "" {
				mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) { pod.Status.Phase = test.phase })
			}
			before := time.Now()
			obj, gone := a.delete("v1 pods", in("ns", "p"), metav1.DeleteOptions{GracePeriodSeconds: test.asked})
			if gone != (test.want == 0) {
				t.Fatalf("gone is %t", gone)
			}
			_, err := a.tryGet("v1 pods", in("ns", "p"))
			if gone {
				if !apierrors.IsNotFound(err) {
					t.Errorf("the pod still exists: %v", err)
				}
				return
			}
			if got := obj.GetDeletionGracePeriodSeconds(); got == nil || *got != test.want {
				t.Errorf("grace period is %v, want %d", got, test.want)
			}
			if due := obj.GetDeletionTimestamp(); due == nil || due.Before(&metav1.Time{Time: before.Add(time.Duration(test.want-1) * time.Second)}) {
				t.Errorf("deletion timestamp is %v, which is too early", due)
			}
			if obj.GetGeneration() != 2 {
				t.Errorf("generation is %d, want 2", obj.GetGeneration())
			}
		})
	}
}

func TestBinding(t *testing.T) {
	t.Parallel()
	binding := func(name, node string) *corev1.Binding {
		return &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"bound": "yes"}, Labels: map[string]string{"zone": "z1"}},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}
	}
	a := newAPI(t)
	a.create("v1 pods", newPod("p", ""))
	gated := newPod("gated", "")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}}
	a.create("v1 pods", gated)
	held := newPod("going", "")
	held.Finalizers = []string{"a.b/c"}
	a.create("v1 pods", held)
	a.delete("v1 pods", in("ns", "going"), metav1.DeleteOptions{})
	wrongKind, stranger := binding("p", "x"), binding("p", "n")
	wrongKind.Target.Kind = "Pod"
	stranger.UID = "other"

	refused := []struct {
		name    string
		binding *corev1.Binding
		message string
	}{
		{"p", binding("p", ""), `target.name: Required value`},
		{"p", wrongKind, `target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"`},
		{"p", binding("q", "n"), `name in URL does not match name in Binding object`},
		{"none", binding("none", "n"), `pods "none" not found`},
		{"gated", binding("gated", "n"), `Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates`},
		{"going", binding("going", "n"), `Operation cannot be fulfilled on pods/binding "going": pod going is being deleted, cannot be assigned to a host`},
	}
	for _, test := range refused {
		wantMessage(t, a.createNamed("v1 pods/binding", in("ns", test.name), test.binding), test.message)
	}

	if err := a.createNamed("v1 pods/binding", in("ns", "p"), stranger); !apierrors.IsConflict(err) {
		t.Errorf("binding another pod of that name: %v", err)
	}
	wantMessage(t, a.createNamed("v1 pods/binding", in("ns", "p"), binding("p", "n"), metav1.DryRunAll), "")
	if node := a.get("v1 pods", in("ns", "p")).(*corev1.Pod).Spec.NodeName; node != "" {
		t.Fatalf("a dry run bound the pod to %s", node)
	}
	wantMessage(t, a.createNamed("v1 pods/binding", in("ns", "p"), binding("p", "n")), "")
	pod := a.get("v1 pods", in("ns", "p")).(*corev1.Pod)
	if pod.Spec.NodeName != "n" || pod.Annotations["bound"] != "yes" || pod.Labels["zone"] != "z1" || pod.Labels["app"] != "x" || pod.Generation != 1 {
		t.Errorf("bound pod is %+v on %q", pod.ObjectMeta, pod.Spec.NodeName)
	}
	if c := pod.Status.Conditions; len(c) != 1 || c[0].Type != corev1.PodScheduled || c[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions are %+v", c)
	}
	wantMessage(t, a.createNamed("v1 pods/binding", in("ns", "p"), binding("p", "m")),
		`Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"`)
}

func TestBindings(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("v1 pods", newPod("p", ""))
	r := a.resource("v1 bindings")
	record, err := r.Storage.(rest.Creater).Create(t.Context(), &corev1.Binding{
		ObjectMeta: named("ns", "p"), Target: corev1.ObjectReference{Name: "n"},
	}, nil, metav1.CreateOptions{})
	if err != nil || record != nil {
		t.Fatalf("response is %v, %v", record, err)
	}
	if node := a.get("v1 pods", in("ns", "p")).(*corev1.Pod).Spec.NodeName; node != "n" {
		t.Errorf("node is %q", node)
	}
}

func TestEphemeralContainers(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("v1 pods", newPod("p", "n"))
	add := func(name, image string) corev1.EphemeralContainer {
		return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: image}}
	}
	pod := mustUpdate(a, "v1 pods/ephemeralcontainers", in("ns", "p"), func(pod *corev1.Pod) {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, add("dbg", "busybox"))
		pod.Spec.ActiveDeadlineSeconds = ptr(int64(5))
		pod.Labels["more"] = "1"
	})
	if len(pod.Spec.EphemeralContainers) != 1 || pod.Generation != 2 {
		t.Errorf("containers %v, generation %d", pod.Spec.EphemeralContainers, pod.Generation)
	}
	if pod.Spec.ActiveDeadlineSeconds != nil || pod.Labels["more"] != "" {
		t.Error("other parts of the pod were written")
	}
	_, err := update(a, "v1 pods/ephemeralcontainers", in("ns", "p"), func(pod *corev1.Pod) { pod.Spec.EphemeralContainers = nil })
	wantMessage(t, err, "Pod \"p\" is invalid: spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be removed\n")
	_, err = update(a, "v1 pods/ephemeralcontainers", in("ns", "p"), func(pod *corev1.Pod) { pod.Spec.EphemeralContainers[0].Image = "other" })
	if !apierrors.IsInvalid(err) {
		t.Errorf("changing an ephemeral container: %v", err)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	sent := newPod("p", "n")
	sent.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: resources("100m", "64Mi"), Limits: resources("200m", "128Mi")}
	tests := map[string]struct {
		change  func(pod *corev1.Pod)
		message string
	}{
		"up":          {func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = resources("300m", "128Mi") }, ""},
		"memory down": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = resources("200m", "100Mi") }, ""},
		"policy": {func(pod *corev1.Pod) {
			pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}, `Pod "p" is invalid: spec: Forbidden: only cpu and memory resources are mutable`},
		"image is ignored": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Image = "other" }, ""},
		"class": {func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
		}, `Pod "p" is invalid: spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing`},
		"limit removed": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Limits = resources("", "128Mi") },
			`Pod "p" is invalid: spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed`},
		"request left out": {func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = resources("100m", "") }, ""},
		"other resource": {func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits["example.com/x"] = resource.MustParse("1")
		}, `Pod "p" is invalid: spec: Forbidden: only cpu and memory resources are mutable`},
		"other resource of the pod": {func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}, Limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}}
		}, `Pod "p" is invalid: spec: Forbidden: only cpu and memory resources are mutable at pod-level`},
		"container added": {func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "d", Image: "i"})
		}, `Pod "p" is invalid: spec.containers: Forbidden: containers may not be added or removed on resize`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.create("v1 pods", sent.DeepCopy())
			pod, err := update(a, "v1 pods/resize", in("ns", "p"), test.change)
			wantMessage(t, err, test.message)
			if err != nil {
				return
			}
			want := sent.DeepCopy()
			test.change(want)
			want.Spec.Containers[0].Image = "i"
			a.resource("v1 pods").Version.Default(want)
			if diff := cmp.Diff(want.Spec, pod.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResizeRemovesNoRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	sent := newPod("p", "n")
	sent.Spec.Containers[0].Resources.Requests = resources("100m", "64Mi")
	a.create("v1 pods", sent)
	_, err := update(a, "v1 pods/resize", in("ns", "p"), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = resources("100m", "")
	})
	wantMessage(t, err, `Pod "p" is invalid: spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed`)
}

func TestResizeNeedsTheNode(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("v1 pods", newPod("p", "n"))
	mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	_, err := update(a, "v1 pods/resize", in("ns", "p"), func(*corev1.Pod) {})
	wantMessage(t, err, `Pod "p" is invalid: spec: Forbidden: Pod running on node without support for resize`)
	mirror := newPod("mirror", "n")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "h"}
	a.create("v1 pods", mirror)
	for _, part := range []string{"resize", "ephemeralcontainers"} {
		if _, err := update(a, "v1 pods/"+part, in("ns", "mirror"), func(*corev1.Pod) {}); !apierrors.IsInvalid(err) {
			t.Errorf("%s of a mirror pod: %v", part, err)
		}
	}
}

// TestResizeWithManyErrors checks that a resize that removes a container is rejected even if it causes the
// maximum number of other errors.
func TestResizeWithManyErrors(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	sent := newPod("p", "n")
	sent.Spec.Containers = append(sent.Spec.Containers, corev1.Container{Name: "d", Image: "i"})
	sent.Spec.InitContainers = []corev1.Container{{Name: "e", Image: "i"}}
	a.create("v1 pods", sent)
	_, err := update(a, "v1 pods/resize", in("ns", "p"), func(pod *corev1.Pod) {
		pod.Spec.Containers, pod.Spec.InitContainers = pod.Spec.Containers[:1], nil
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{}
		for i := range 2000 {
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceName(fmt.Sprint("x", i))] = resource.MustParse("1")
		}
	})
	if !apierrors.IsInvalid(err) {
		t.Errorf("got %.1000v, want Invalid", err)
	}
}
