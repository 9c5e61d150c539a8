package core_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// nodeTerms returns an affinity that requires one of the given node selector terms.
func nodeTerms(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// TestGatedTerms checks that a change of a gated pod's node selection can only make it stricter, and that an
// empty term must remain empty.
func TestGatedTerms(t *testing.T) {
	t.Parallel()
	one := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}}}
	more := *one.DeepCopy()
	more.MatchExpressions = append(more.MatchExpressions, corev1.NodeSelectorRequirement{Key: "b", Operator: corev1.NodeSelectorOpExists})
	for name, tt := range map[string]struct {
		before, after *corev1.Affinity
		want          string
	}{
		"first terms":        {nil, nodeTerms(one), ""},
		"another expression": {nodeTerms(one), nodeTerms(more), ""},
		"one less":           {nodeTerms(more), nodeTerms(one), "only additions are allowed (no mutations or deletions)"},
		"another term":       {nodeTerms(one), nodeTerms(one, one), "no additions/deletions to non-empty NodeSelectorTerms list are allowed"},
		"an empty term":      {nodeTerms(corev1.NodeSelectorTerm{}), nodeTerms(one), "only additions are allowed (no mutations or deletions)"},
		"none at all":        {nodeTerms(one), nil, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"},
	} {
		a, pod := newAPI(t), newPod("p", "")
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a.b/c"}}
		pod.Spec.Affinity = tt.before
		a.create("v1 pods", pod)
		_, err := update(a, "v1 pods", in("ns", "p"), func(pod *corev1.Pod) { pod.Spec.Affinity = tt.after.DeepCopy() })
		if tt.want == "" && err != nil || tt.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

// TestAnnotationsAreKept checks that annotations for mirror pods and AppArmor cannot change.
func TestAnnotationsAreKept(t *testing.T) {
	t.Parallel()
	const key = podspec.AppArmorContainer + "c"
	a, pod := newAPI(t), newPod("p", "n")
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "h", key: "unconfined"}
	a.create("v1 pods", pod)
	a.create("v1 pods", newPod("other", "n"))
	for _, tt := range []struct {
		pod, resource string
		change        func(annotations map[string]string)
		want          string
	}{
		{"p", "v1 pods", func(m map[string]string) { delete(m, corev1.MirrorPodAnnotationKey) }, "may not remove or update mirror pod annotation"},
		{"p", "v1 pods/status", func(m map[string]string) { m[key] = "runtime/default" }, "may not remove or update AppArmor annotations"},
		{"other", "v1 pods", func(m map[string]string) { m[corev1.MirrorPodAnnotationKey] = "h" }, "may not add mirror pod annotation"},
		{"other", "v1 pods/status", func(m map[string]string) { m[key] = "unconfined" }, "may not add AppArmor annotations"},
	} {
		_, err := update(a, tt.resource, in("ns", tt.pod), func(pod *corev1.Pod) {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			tt.change(pod.Annotations)
		})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %s: %v, want %q", tt.resource, tt.pod, err, tt.want)
		}
	}
	mustUpdate(a, "v1 pods", in("ns", "p"), func(pod *corev1.Pod) { pod.Annotations["a"] = "b" })
}

// TestAppArmor checks that an annotation of a new pod is copied to the field, and that the annotation and the
// field must be consistent.
func TestAppArmor(t *testing.T) {
	t.Parallel()
	const key = podspec.AppArmorContainer + "c"
	unconfined := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	for name, tt := range map[string]struct {
		annotation  string
		pod, field  *corev1.AppArmorProfile
		want        *corev1.AppArmorProfile
		warns       bool
		disagreeing string
	}{
		"an annotation":               {annotation: "unconfined", want: unconfined, warns: true},
		"beside the field":            {annotation: "unconfined", field: unconfined, want: unconfined},
		"beside that of the pod":      {annotation: "unconfined", pod: unconfined},
		"empty":                       {annotation: "", warns: true},
		"other than the field":        {annotation: "runtime/default", field: unconfined, disagreeing: "apparmor type in annotation and field must match"},
		"another path than the field": {annotation: "localhost/a", field: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr("b")}, disagreeing: "apparmor profile in annotation and field must match"},
	} {
		a, pod := newAPI(t), newPod("p", "")
		pod.Annotations = map[string]string{key: tt.annotation}
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: tt.pod}
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: tt.field}
		r := a.resource("v1 pods")
		r.Version.Default(pod)
		ctx := request.NewContext(t.Context(), &request.Info{}, time.Time{})
		record, err := r.Storage.(rest.Creater).Create(ctx, pod, nil, metav1.CreateOptions{})
		if tt.disagreeing != "" {
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.disagreeing) {
				t.Errorf("%s: %v, want %q", name, err, tt.disagreeing)
			}
			continue
		}
		obj, err := a.object(record, err)
		if err != nil {
			t.Errorf("%s: create the pod: %v", name, err)
			continue
		}
		got := obj.(*corev1.Pod).Spec.Containers[0].SecurityContext.AppArmorProfile
		if (got == nil) != (tt.want == nil) || got != nil && got.Type != tt.want.Type {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
		warned := slices.ContainsFunc(request.WarningsFrom(ctx), func(text string) bool { return strings.Contains(text, "deprecated since v1.30") })
		if warned != tt.warns {
			t.Errorf("%s: warnings are %q", name, request.WarningsFrom(ctx))
		}
	}
}

// TestPodStatusRules checks rules for status updates that the recorded requests do not cover.
func TestPodStatusRules(t *testing.T) {
	t.Parallel()
	ended := func(name string, code int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}
	}
	always, onFailure := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure
	const again = "may not be transitioned to non-terminated state"
	for name, tt := range map[string]struct {
		spec        func(*corev1.PodSpec)
		before, now func(*corev1.PodStatus)
		want        string
	}{
		"never again": {
			before: func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{ended("c", 1)} },
			now:    func(s *corev1.PodStatus) { s.ContainerStatuses[0].State.Terminated = nil }, want: again,
		},
		"again by its own policy": {
			spec:   func(s *corev1.PodSpec) { s.Containers[0].RestartPolicy = &onFailure },
			before: func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{ended("c", 1)} },
			now:    func(s *corev1.PodStatus) { s.ContainerStatuses[0].State.Terminated = nil },
		},
		"not again by its own policy": {
			spec:   func(s *corev1.PodSpec) { s.Containers[0].RestartPolicy = &onFailure },
			before: func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{ended("c", 0)} },
			now:    func(s *corev1.PodStatus) { s.ContainerStatuses[0].State.Terminated = nil }, want: again,
		},
		"again by a rule": {
			spec: func(s *corev1.PodSpec) {
				s.Containers[0].RestartPolicy = ptr(corev1.ContainerRestartPolicyNever)
				s.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart,
					ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}
			},
			before: func(s *corev1.PodStatus) { s.ContainerStatuses = []corev1.ContainerStatus{ended("c", 42)} },
			now:    func(s *corev1.PodStatus) { s.ContainerStatuses[0].State.Terminated = nil },
		},
		"a sidecar again": {
			spec: func(s *corev1.PodSpec) {
				s.InitContainers = []corev1.Container{{Name: "i", Image: "i", RestartPolicy: &always}}
			},
			before: func(s *corev1.PodStatus) { s.InitContainerStatuses = []corev1.ContainerStatus{ended("i", 0)} },
			now:    func(s *corev1.PodStatus) { s.InitContainerStatuses[0].State.Terminated = nil },
		},
		"an init container again": {
			spec: func(s *corev1.PodSpec) {
				s.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
			},
			before: func(s *corev1.PodStatus) { s.InitContainerStatuses = []corev1.ContainerStatus{ended("i", 0)} },
			now:    func(s *corev1.PodStatus) { s.InitContainerStatuses[0].State.Terminated = nil }, want: again,
		},
		"an ephemeral container again": {
			spec:   func(s *corev1.PodSpec) { s.RestartPolicy = corev1.RestartPolicyAlways },
			before: func(s *corev1.PodStatus) { s.EphemeralContainerStatuses = []corev1.ContainerStatus{ended("e", 1)} },
			now:    func(s *corev1.PodStatus) { s.EphemeralContainerStatuses[0].State.Terminated = nil }, want: again,
		},
		"a nominated node that was bad": {
			now: func(s *corev1.PodStatus) { s.NominatedNodeName = "A" }, want: "status.nominatedNodeName: Invalid value",
		},
		"users": {
			now: func(s *corev1.PodStatus) {
				s.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: -1}}}}
			}, want: "status.containerStatuses[0].user.linux.uid: Invalid value: -1",
		},
		"health of an ephemeral container": {
			now: func(s *corev1.PodStatus) {
				s.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "e", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "cpu"}}}}
			}, want: "status.ephemeralContainerStatuses[0].allocatedResourcesStatus: Forbidden",
		},
		"health": {
			now: func(s *corev1.PodStatus) {
				s.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:a", Resources: []corev1.ResourceHealth{
					{ResourceID: "a", Health: corev1.ResourceHealthStatusHealthy}, {ResourceID: "b", Health: "Dead"},
				}}}}}
			}, want: `resources[1].health: Unsupported value: "Dead": supported values: "Healthy", "Unhealthy", "Unknown"`,
		},
		"claims": {
			spec: func(s *corev1.PodSpec) {
				s.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: ptr("a")}}
			},
			now: func(s *corev1.PodStatus) {
				s.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a", ResourceClaimName: ptr("a")}, {Name: "a"}}
			}, want: `status.resourceClaimStatuses[1].name: Duplicate value: "a"`,
		},
		"a claim that the container does not use": {
			now: func(s *corev1.PodStatus) {
				s.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:b"}}}}
			}, want: "must match one of the container's resource claims",
		},
		"a nominated node of a bound pod": {
			now:  func(s *corev1.PodStatus) { s.NominatedNodeName = "m" },
			want: "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
		},
		"generation of a condition": {
			now: func(s *corev1.PodStatus) {
				s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, ObservedGeneration: -1}}
			}, want: "status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer",
		},
		"extended resources": {
			now: func(s *corev1.PodStatus) {
				s.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "a",
					RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "d", ResourceName: "a.b/c", RequestName: "r"}}}
			}, want: "requestMappings[0].containerName: Invalid value: \"d\": must match the name of an entry in spec.initContainers.name or spec.containers.name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, pod := newAPI(t), newPod("p", "n")
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			if tt.spec != nil {
				tt.spec(&pod.Spec)
			}
			a.create("v1 pods", pod)
			if tt.before != nil {
				mustUpdate(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) { tt.before(&pod.Status) })
			}
			_, err := update(a, "v1 pods/status", in("ns", "p"), func(pod *corev1.Pod) { tt.now(&pod.Status) })
			if tt.want == "" && err != nil || tt.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestStatusOfGates checks that status fields of disabled features are dropped.
func TestStatusOfGates(t *testing.T) {
	t.Parallel()
	write := func(pod *corev1.Pod) {
		pod.Status.AllocatedResources = resources("1", "")
		pod.Status.VolumeHealth = []corev1.PodVolumeHealth{{Name: "v"}}
		pod.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{ResourceClaimName: "a"}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", VolumeMounts: []corev1.VolumeMountStatus{{VolumeStatus: &corev1.VolumeStatus{}}},
			AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:a", Resources: []corev1.ResourceHealth{{Health: corev1.ResourceHealthStatusHealthy, Message: ptr("m")}}}},
		}}
	}
	for value, on := range map[string]bool{
		"InPlacePodLevelResourcesVerticalScaling=false,ResourceHealthStatusMessage=false":  false,
		"CSIVolumeHealth=true,DRANodeAllocatableResources=true,ImageVolumeWithDigest=true": true,
	} {
		gates, err := feature.Defaults().Parse(value)
		if err != nil {
			t.Fatal(err)
		}
		a := newAPIWith(t, gates)
		pod := newPod("p", "n")
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "a", ResourceClaimName: ptr("a")}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "a"}}
		a.create("v1 pods", pod)
		s := mustUpdate(a, "v1 pods/status", in("ns", "p"), write).Status
		for field, kept := range map[string]bool{
			"allocatedResources": s.AllocatedResources != nil, "volumeHealth": s.VolumeHealth != nil,
			"nodeAllocatableResourceClaimStatuses": s.NodeAllocatableResourceClaimStatuses != nil,
			"volumeStatus":                         s.ContainerStatuses[0].VolumeMounts[0].VolumeStatus != nil,
			"message":                              s.ContainerStatuses[0].AllocatedResourcesStatus[0].Resources[0].Message != nil,
		} {
			if kept != on {
				t.Errorf("%s: %s is kept: %t", value, field, kept)
			}
		}
	}
}

// TestResizeByGates checks how feature gates affect the resize subresource.
func TestResizeByGates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		gates  string
		spec   func(*corev1.PodSpec)
		change func(*corev1.PodSpec)
		want   string
	}{
		{"", initWithCPU, moreInitCPU, ""},
		{"InPlacePodVerticalScalingInitContainers=false", initWithCPU, moreInitCPU, "resources for non-sidecar init containers are immutable"},
		{"", wholeWithCPU, func(s *corev1.PodSpec) { s.Resources.Requests = resources("2", "") }, ""},
		{"InPlacePodLevelResourcesVerticalScaling=false", wholeWithCPU, func(*corev1.PodSpec) {}, "pods with pod-level resources cannot be resized"},
	} {
		gates, err := feature.Defaults().Parse(tt.gates)
		if err != nil {
			t.Fatal(err)
		}
		a, pod := newAPIWith(t, gates), newPod("p", "n")
		tt.spec(&pod.Spec)
		a.create("v1 pods", pod)
		_, err = update(a, "v1 pods/resize", in("ns", "p"), func(pod *corev1.Pod) { tt.change(&pod.Spec) })
		if tt.want == "" && err != nil || tt.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.gates, err, tt.want)
		}
	}
}

func initWithCPU(s *corev1.PodSpec) {
	s.InitContainers = []corev1.Container{{Name: "i", Image: "i", Resources: corev1.ResourceRequirements{Requests: resources("1", "")}}}
}

func moreInitCPU(s *corev1.PodSpec) { s.InitContainers[0].Resources.Requests = resources("2", "") }

func wholeWithCPU(s *corev1.PodSpec) {
	s.Resources = &corev1.ResourceRequirements{Requests: resources("1", "")}
}
