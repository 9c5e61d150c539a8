// Package podsecurity implements the Pod Security Standards: the rules of the levels baseline and
// restricted, in each version from v1.0 on. It evaluates pods and parses policies from labels. The
// admission plugin determines the policy of a request. Messages are kube-apiserver's. Each check
// has its own file.
package podsecurity

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Pod is the evaluated pod or pod template.
type Pod struct {
	Annotations map[string]string
	Spec        *corev1.PodSpec
}

// Violation is the result of one check; the zero value means that the pod passes.
type Violation struct {
	Reason string // T a short description
	Detail string // and where
}

// Violations are the results of all checks of a level, in the order of the checks; nil means that
// the pod is allowed.
type Violations []Violation

// Reasons returns the violations without details.
func (v Violations) Reasons() string {
	reasons := make([]string, len(v))
	for i := range v {
		reasons[i] = v[i].Reason
	}
	return strings.Join(reasons, ", ")
}

// String returns the violations with their details.
func (v Violations) String() string {
	texts := make([]string, len(v))
	for i := range v {
		texts[i] = v[i].Reason + " (" + v[i].Detail + ")"
	}
	return strings.Join(texts, ", ")
}

// judge returns the violation by a pod. It does not allocate if there is none.
type judge func(Pod) Violation

// check is a rule of the standards.
type check struct {
	name      string
	revisions []revision // oldest first
}

// revision is a check as it is from a version, v1.since, until its next revision.
type revision struct {
	since int
	judge judge
	// replaces is a check of the level baseline that this check includes, and that the level
	// restricted omits.
	replaces string
}

// at returns the revision of a version, nil where the check is newer.
func (c *check) at(minor int) *revision {
	var found *revision
	for i := range c.revisions {
		if c.revisions[i].since <= minor {
			found = &c.revisions[i]
		}
	}
	return found
}

// always is a check that is the same in all versions.
func always(name string, judge judge) check {
	return check{name, []revision{{judge: judge}}}
}

// baselineChecks are the checks of the level baseline. Messages name violations in
// the order of the checks' names.
func baselineChecks() []check {
	return []check{
		always("appArmorProfile", appArmorProfile),
		always("capabilities_baseline", capabilitiesBaseline),
		always("hostNamespaces", hostNamespaces),
		always("hostPathVolumes", hostPathVolumes),
		always("hostPorts", hostPorts),
		{"hostProbesAndHostLifecycle", []revision{{since: 34, judge: hostProbes}}},
		always("privileged", privileged),
		{"procMount", []revision{{judge: procMount}, {since: 35, judge: unlessUserNamespace(procMount)}}},
		{"seLinuxOptions", []revision{{judge: seLinux10}, {since: 31, judge: seLinux131}}},
		{"seccompProfile_baseline", []revision{{judge: seccompAnnotations}, {since: 19, judge: seccompBaseline}}},
		{"sysctls", []revision{{judge: sysctls(0)}, {since: 27, judge: sysctls(27)}, {since: 29, judge: sysctls(29)}, {since: 32, judge: sysctls(32)}, {since: 37, judge: sysctls(37)}}},
		always("windowsHostProcess", windowsHostProcess),
	}
}

// restrictedChecks are the checks that the level restricted has besides.
func restrictedChecks() []check {
	return []check{
		{"allowPrivilegeEscalation", []revision{{since: 8, judge: privilegeEscalation}, {since: 25, judge: unlessWindows(privilegeEscalation)}}},
		{"capabilities_restricted", []revision{
			{22, capabilitiesRestricted, "capabilities_baseline"},
			{25, unlessWindows(capabilitiesRestricted), "capabilities_baseline"},
		}},
		{"procMount_restricted", []revision{{35, procMount, "procMount"}}},
		{"restrictedVolumes", []revision{{0, restrictedVolumes, "hostPathVolumes"}}},
		{"runAsNonRoot", []revision{{judge: runAsNonRoot}, {since: 35, judge: unlessUserNamespace(runAsNonRoot)}}},
		{"runAsUser", []revision{{since: 23, judge: runAsUser}, {since: 35, judge: unlessUserNamespace(runAsUser)}}},
		{"seccompProfile_restricted", []revision{
			{19, seccompRestricted, "seccompProfile_baseline"},
			{25, unlessWindows(seccompRestricted), "seccompProfile_baseline"},
		}},
	}
}

// unlessWindows skips pods for Windows, on which the fields of a check have no effect.
func unlessWindows(j judge) judge {
	return func(pod Pod) Violation {
		if os := pod.Spec.OS; os != nil && os.Name == corev1.Windows {
			return Violation{}
		}
		return j(pod)
	}
}

// unlessUserNamespace skips pods with their own user namespace, because their root user is not the
// host's.
func unlessUserNamespace(j judge) judge {
	return func(pod Pod) Violation {
		if host := pod.Spec.HostUsers; host != nil && !*host {
			return Violation{}
		}
		return j(pod)
	}
}

// Standards are the checks of all levels and versions. They are immutable.
type Standards struct {
	// The judges of v1.0, v1.1 and so on; later versions use the last ones.
	baseline, restricted [][]judge
}

// New returns the standards.
func New() *Standards {
	baseline, restricted := baselineChecks(), restrictedChecks()
	changes := map[int]bool{} // versions that differ from the one before
	for _, c := range slices.Concat(baseline, restricted) {
		for _, r := range c.revisions {
			changes[r.since] = true
		}
	}
	s := &Standards{}
	for minor := range slices.Max(slices.Collect(maps.Keys(changes))) + 1 {
		if !changes[minor] {
			s.baseline = append(s.baseline, s.baseline[minor-1])
			s.restricted = append(s.restricted, s.restricted[minor-1])
			continue
		}
		s.baseline = append(s.baseline, judges(baseline, minor, nil))
		s.restricted = append(s.restricted, restrictedJudges(baseline, restricted, minor))
	}
	return s
}

// restrictedJudges returns the judges of the level restricted in a version: those of baseline that
// are not replaced, and its own.
func restrictedJudges(baseline, restricted []check, minor int) []judge {
	replaced := map[string]bool{}
	for i := range restricted {
		if r := restricted[i].at(minor); r != nil {
			replaced[r.replaces] = true
		}
	}
	return append(judges(baseline, minor, replaced), judges(restricted, minor, nil)...)
}

// judges returns the judges of checks in a version.
func judges(checks []check, minor int, without map[string]bool) []judge {
	var found []judge
	for i := range checks {
		if r := checks[i].at(minor); r != nil && !without[checks[i].name] {
			found = append(found, r.judge)
		}
	}
	return found
}

// Judge returns the violations of a level by the pod.
func (s *Standards) Judge(level LevelVersion, pod Pod) Violations {
	var of [][]judge
	switch level.Level {
	case Baseline:
		of = s.baseline
	case Restricted:
		of = s.restricted
	default:
		return nil
	}
	version := len(of) - 1
	if level.Version.pinned {
		version = min(version, level.Version.minor)
	}
	var found Violations
	for _, judge := range of[version] {
		if v := judge(pod); v.Reason != "" {
			found = append(found, v)
		}
	}
	return found
}
