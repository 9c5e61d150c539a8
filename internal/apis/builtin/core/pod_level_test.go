package core_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// requirements parses requests and limits such as "cpu=1 memory=1Gi / cpu=2".
func requirements(t *testing.T, text string) corev1.ResourceRequirements {
	t.Helper()
	requests, limits, _ := strings.Cut(text, "/")
	var r corev1.ResourceRequirements
	for list, pairs := range map[*corev1.ResourceList]string{&r.Requests: requests, &r.Limits: limits} {
		var members []string
		for pair := range strings.FieldsSeq(pairs) {
			name, quantity, _ := strings.Cut(pair, "=")
			members = append(members, fmt.Sprintf("%q:%q", name, quantity))
		}
		if len(members) > 0 {
			if err := json.Unmarshal([]byte("{"+strings.Join(members, ",")+"}"), list); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}

func TestPodLevelResources(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod        string // "" for a pod without resources
		init       []string
		sidecars   []string
		containers []string
		want       string
	}{
		"nothing said":            {containers: []string{"cpu=1 / cpu=2"}},
		"of no container":         {pod: "/ cpu=2 memory=1Gi", containers: []string{""}, want: "cpu=2 memory=1Gi / cpu=2 memory=1Gi"},
		"sum of requests":         {pod: "/ cpu=4", containers: []string{"cpu=1", "cpu=500m memory=1Gi"}, want: "cpu=1500m memory=1Gi / cpu=4"},
		"limits of all":           {pod: "cpu=3", containers: []string{"/ cpu=2 memory=1Gi", "/ cpu=1"}, want: "cpu=3 memory=1Gi / cpu=3"},
		"less than is asked for":  {pod: "cpu=5", containers: []string{"/ cpu=2"}, want: "cpu=5 / cpu=5"},
		"huge pages":              {pod: "cpu=2", containers: []string{"cpu=1 / hugepages-2Mi=4Mi", "cpu=1 / hugepages-2Mi=2Mi"}, want: "cpu=2 hugepages-2Mi=6Mi / hugepages-2Mi=6Mi"},
		"huge pages asked for":    {pod: "cpu=1 hugepages-2Mi=4Mi", containers: []string{"cpu=1 / hugepages-2Mi=2Mi"}, want: "cpu=1 hugepages-2Mi=4Mi / hugepages-2Mi=4Mi"},
		"other resources":         {pod: "/ cpu=1", containers: []string{"/ example.com/x=1"}, want: "cpu=1 / cpu=1"},
		"initializing needs more": {pod: "/ cpu=9", init: []string{"cpu=3"}, containers: []string{"cpu=1"}, want: "cpu=3 / cpu=9"},
		"sidecars run along":      {pod: "/ cpu=9", sidecars: []string{"cpu=1"}, init: []string{"cpu=3"}, containers: []string{"cpu=1"}, want: "cpu=4 / cpu=9"},
		"all sidecars":            {pod: "/ cpu=9", sidecars: []string{"cpu=2", "cpu=2"}, init: []string{"cpu=1"}, containers: []string{"cpu=3"}, want: "cpu=7 / cpu=9"},
	}
	always := corev1.ContainerRestartPolicyAlways
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, pod := newAPI(t), newPod("p", "")
			pod.Spec.Containers = nil
			if test.pod != "" {
				pod.Spec.Resources = new(requirements(t, test.pod))
			}
			add := func(to *[]corev1.Container, kind string, resources []string, policy *corev1.ContainerRestartPolicy) {
				for i, text := range resources {
					*to = append(*to, corev1.Container{
						Name: fmt.Sprintf("%s%d", kind, i), Image: "i", RestartPolicy: policy, Resources: requirements(t, text),
					})
				}
			}
			add(&pod.Spec.InitContainers, "sidecar", test.sidecars, &always)
			add(&pod.Spec.InitContainers, "init", test.init, nil)
			add(&pod.Spec.Containers, "c", test.containers, nil)
			created := a.create("v1 pods", pod).(*corev1.Pod)
			if test.want == "" {
				if created.Spec.Resources != nil {
					t.Errorf("resources are %v", created.Spec.Resources)
				}
				return
			}
			if diff := cmp.Diff(requirements(t, test.want), *created.Spec.Resources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			if _, err := update(a, "v1 pods", in("ns", "p"), func(pod *corev1.Pod) { pod.Spec.Resources = nil }); !apierrors.IsInvalid(err) {
				t.Errorf("an update without them: %v", err)
			}
		})
	}
}

func TestPodDefaults(t *testing.T) {
	t.Parallel()
	a, pod := newAPI(t), newPod("p", "")
	pod.Spec.HostNetwork, pod.Spec.TerminationGracePeriodSeconds = true, ptr(int64(-1))
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 82, HostPort: 82}}
	spec := a.create("v1 pods", pod).(*corev1.Pod).Spec
	if *spec.TerminationGracePeriodSeconds != 1 {
		t.Errorf("grace period is %d", *spec.TerminationGracePeriodSeconds)
	}
	want := []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: "TCP"}, {ContainerPort: 82, HostPort: 82, Protocol: "TCP"}}
	if diff := cmp.Diff(want, spec.Containers[0].Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// fullPod returns a pod whose JSON encoding is about 4 KiB, without defaults.
func fullPod() *corev1.Pod {
	pod := newPod("p", "n")
	pod.Spec.Containers = nil
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example.com/team/app:v1.2.3", Resources: corev1.ResourceRequirements{
			Requests: resources("100m", "64Mi"), Limits: resources("200m", "128Mi"),
		}}
		for j := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "some value that is not too short"})
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}})
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}}}
		c.ReadinessProbe = c.LivenessProbe.DeepCopy()
		c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}, {Name: "scratch", MountPath: "/tmp"}}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}}, {Name: "scratch"},
	}
	return pod
}

func BenchmarkPodDefaults(b *testing.B) {
	defaults := declared(b).resource("v1 pods").Version.Default
	pod := fullPod()
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			bare := pod.DeepCopy()
			b.StartTimer()
			defaults(bare)
		}
	})
	b.Run("complete", func(b *testing.B) {
		defaults(pod)
		b.ReportAllocs()
		for b.Loop() {
			defaults(pod)
		}
	})
}
