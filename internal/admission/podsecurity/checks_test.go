package podsecurity_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission/podsecurity"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
)

// newestMinor is one more than the newest version that any check names.
const newestMinor = 38

// violationSince is the violation of a level since version v1.since; "" means no violation.
type violationSince struct {
	since int
	text  string
}

// always returns a violation in all versions.
func always(text string) []violationSince { return []violationSince{{0, text}} }

// fixture is a pod that is allowed except for one change.
type fixture struct {
	name   string
	change func(*corev1.PodSpec)
	// baseline and restricted are the violations of the two levels, oldest version first; nil means no
	// violation.
	baseline, restricted []violationSince
	annotations          map[string]string
}

// good returns the spec of a pod that all levels allow in all versions.
func good() *corev1.PodSpec {
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}
	}
	return &corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		InitContainers:  []corev1.Container{container("i")},
		Containers:      []corev1.Container{container("c"), container("d")},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container("e"))},
		},
	}
}

// first returns a change to the security context of the first container.
func first(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { change(s.Containers[0].SecurityContext) }
}

func all(change func(*corev1.SecurityContext)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		change(s.InitContainers[0].SecurityContext)
		change(s.Containers[0].SecurityContext)
		change(s.Containers[1].SecurityContext)
		change(s.EphemeralContainers[0].SecurityContext)
	}
}

// ofPod returns a change to the pod's security context.
func ofPod(change func(*corev1.PodSecurityContext)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { change(s.SecurityContext) }
}

// both returns a change that applies several changes in order.
func both(changes ...func(*corev1.PodSpec)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		for _, change := range changes {
			change(s)
		}
	}
}

func windows(s *corev1.PodSpec) { s.OS = &corev1.PodOS{Name: corev1.Windows} }

func hostUsers(is bool) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.HostUsers = &is }
}

func volume(name string, source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
}

func ptr[T any](v T) *T { return &v }

// TestChecks evaluates each fixture at both levels in every version.
func TestChecks(t *testing.T) {
	t.Parallel()
	standards := podsecurity.AllVersions()
	seen := map[string]bool{}
	for _, f := range fixtures() {
		t.Run(f.name, func(t *testing.T) {
			if seen[f.name] {
				t.Fatal("another fixture has the same name")
			}
			seen[f.name] = true
			spec := good()
			if f.change != nil {
				f.change(spec)
			}
			pod := podsecurity.Pod{Annotations: f.annotations, Spec: spec}
			for _, want := range []struct {
				level          podsecurity.Level
				violationSince []violationSince
			}{{podsecurity.Privileged, nil}, {podsecurity.Baseline, f.baseline}, {podsecurity.Restricted, f.restricted}} {
				for minor := range newestMinor + 1 {
					wantVerdict(t, standards, podsecurity.LevelVersion{Level: want.level, Version: podsecurity.Pinned(minor)}, pod, at(want.violationSince, minor))
				}
				wantVerdict(t, standards, podsecurity.LevelVersion{Level: want.level}, pod, at(want.violationSince, newestMinor))
			}
		})
	}
}

func at(all []violationSince, minor int) string {
	text := ""
	for _, s := range all {
		if s.since <= minor {
			text = s.text
		}
	}
	return text
}

func wantVerdict(t *testing.T, standards *podsecurity.Standards, level podsecurity.LevelVersion, pod podsecurity.Pod, want string) {
	t.Helper()
	found := standards.Evaluate(level, pod)
	if got := found.String(); got != want || (len(found) > 0) != (want != "") {
		t.Errorf("level %s: violations\n%q\nwant\n%q", level, got, want)
	}
}

// TestJudgeAllocates checks that evaluating an allowed pod does not allocate.
func TestJudgeAllocates(t *testing.T) {
	standards, pod := podsecurity.AllVersions(), podsecurity.Pod{Spec: good(), Annotations: map[string]string{"a": "b"}}
	for _, level := range []podsecurity.Level{podsecurity.Baseline, podsecurity.Restricted} {
		alloctest.None(t, level.String(), func() { standards.Evaluate(podsecurity.LevelVersion{Level: level}, pod) })
	}
}

func BenchmarkEvaluate(b *testing.B) {
	standards, pod := podsecurity.AllVersions(), podsecurity.Pod{Spec: good()}
	b.ReportAllocs()
	for b.Loop() {
		standards.Evaluate(podsecurity.LevelVersion{Level: podsecurity.Restricted}, pod)
	}
}

// TestManyCapabilities evaluates a pod of the maximum request size. The time must be linear in the number of
// values, apart from sorting.
func TestManyCapabilities(t *testing.T) {
	t.Parallel()
	const n = 400_000
	own := &corev1.Capabilities{}
	for i := range n {
		own.Add = append(own.Add, corev1.Capability(fmt.Sprint(2*n-i)))
	}
	pod := podsecurity.Pod{Spec: &corev1.PodSpec{Containers: []corev1.Container{{Name: "a", SecurityContext: &corev1.SecurityContext{Capabilities: own}}}}}
	found := podsecurity.AllVersions().Evaluate(podsecurity.LevelVersion{Level: podsecurity.Baseline}, pod)
	if len(found) != 1 || !strings.Contains(found[0].Detail, `must not include "400001", "400002", `) {
		t.Errorf("%d violations", len(found))
	}
}
