// Package podsecurity implements the Pod Security Standards, that is, the rules of the levels baseline and
// restricted in each version since v1.0. It evaluates pods and parses policies from labels. The admission
// plugin determines the policy for a request. Messages are the same as in kube-apiserver. Each check has its
// own file.
package podsecurity

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Pod contains the parts of a pod or pod template that are evaluated.
type Pod struct {
	Annotations map[string]string
	Spec        *corev1.PodSpec
}

// Violation is the result of one check. The zero value means that the pod passes the check.
type Violation struct {
	// Reason is a short description, and Detail lists the affected parts of the pod.
	Reason string
	Detail string
}

// Violations are the violations of a level, in the order of the checks; nil means that the pod is allowed.
type Violations []Violation

// Reasons returns the reasons of the violations without details, separated by commas.
func (v Violations) Reasons() string {
	reasons := make([]string, len(v))
	for i := range v {
		reasons[i] = v[i].Reason
	}
	return strings.Join(reasons, ", ")
}

// String returns the violations with their details, separated by commas.
func (v Violations) String() string {
	texts := make([]string, len(v))
	for i := range v {
		texts[i] = v[i].Reason + " (" + v[i].Detail + ")"
	}
	return strings.Join(texts, ", ")
}

// checkFunc returns the pod's violation of a check, or the zero value if there is none. It must not allocate if
// there is no violation.
type checkFunc func(Pod) Violation

// check is a rule of the standards with its revisions.
type check struct {
	name      string
	revisions []revision // oldest first
}

// revision is the form of a check that applies from version v1.since until the next revision.
type revision struct {
	since int
	check checkFunc
	// replaces is the name of a check of the level baseline that this check includes. The level restricted
	// omits that check.
	replaces string
}

// revisionAt returns the revision that applies in version v1.minor, or nil if the check was added in a later
// version.
func (c *check) revisionAt(minor int) *revision {
	var found *revision
	for i := range c.revisions {
		if c.revisions[i].since <= minor {
			found = &c.revisions[i]
		}
	}
	return found
}

// unversioned returns a check that is the same in all versions.
func unversioned(name string, judge checkFunc) check {
	return check{name, []revision{{check: judge}}}
}

// baselineChecks returns the checks of the level baseline, sorted by name. Messages list violations
// in this order.
func baselineChecks() []check {
	return []check{
		unversioned("appArmorProfile", appArmorProfile),
		unversioned("capabilities_baseline", capabilitiesBaseline),
		unversioned("hostNamespaces", hostNamespaces),
		unversioned("hostPathVolumes", hostPathVolumes),
		unversioned("hostPorts", hostPorts),
		{"hostProbesAndHostLifecycle", []revision{{since: 34, check: hostProbes}}},
		unversioned("privileged", privileged),
		{"procMount", []revision{{check: procMount}, {since: 35, check: unlessUserNamespace(procMount)}}},
		{"seLinuxOptions", []revision{{check: seLinux10}, {since: 31, check: seLinux131}}},
		{"seccompProfile_baseline", []revision{{check: seccompAnnotations}, {since: 19, check: seccompBaseline}}},
		{"sysctls", []revision{{check: sysctls(0)}, {since: 27, check: sysctls(27)}, {since: 29, check: sysctls(29)}, {since: 32, check: sysctls(32)}, {since: 37, check: sysctls(37)}}},
		unversioned("windowsHostProcess", windowsHostProcess),
	}
}

// restrictedChecks returns the additional checks of the level restricted.
func restrictedChecks() []check {
	return []check{
		{"allowPrivilegeEscalation", []revision{{since: 8, check: privilegeEscalation}, {since: 25, check: unlessWindows(privilegeEscalation)}}},
		{"capabilities_restricted", []revision{
			{22, capabilitiesRestricted, "capabilities_baseline"},
			{25, unlessWindows(capabilitiesRestricted), "capabilities_baseline"},
		}},
		{"procMount_restricted", []revision{{35, procMount, "procMount"}}},
		{"restrictedVolumes", []revision{{0, restrictedVolumes, "hostPathVolumes"}}},
		{"runAsNonRoot", []revision{{check: runAsNonRoot}, {since: 35, check: unlessUserNamespace(runAsNonRoot)}}},
		{"runAsUser", []revision{{since: 23, check: runAsUser}, {since: 35, check: unlessUserNamespace(runAsUser)}}},
		{"seccompProfile_restricted", []revision{
			{19, seccompRestricted, "seccompProfile_baseline"},
			{25, unlessWindows(seccompRestricted), "seccompProfile_baseline"},
		}},
	}
}

// unlessWindows returns a check that skips Windows pods, for which the checked fields have no effect.
func unlessWindows(j checkFunc) checkFunc {
	return func(pod Pod) Violation {
		if os := pod.Spec.OS; os != nil && os.Name == corev1.Windows {
			return Violation{}
		}
		return j(pod)
	}
}

// unlessUserNamespace returns a check that skips pods with their own user namespace, because the root user of
// such a pod is not the root user of the host.
func unlessUserNamespace(j checkFunc) checkFunc {
	return func(pod Pod) Violation {
		if host := pod.Spec.HostUsers; host != nil && !*host {
			return Violation{}
		}
		return j(pod)
	}
}

// Standards contains the checks of all levels and versions. It is immutable and safe for concurrent
// use.
type Standards struct {
	// baseline and restricted contain the checks of v1.0, v1.1 and so on. Later versions use the
	// last element.
	baseline, restricted [][]checkFunc
}

// AllVersions returns the standards of all supported versions. All calls return the same value.
func AllVersions() *Standards { return standards() }

var standards = sync.OnceValue(newStandards)

func newStandards() *Standards {
	baseline, restricted := baselineChecks(), restrictedChecks()
	changes := map[int]bool{} // versions that differ from the previous version
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
		s.baseline = append(s.baseline, checksAt(baseline, minor, nil))
		s.restricted = append(s.restricted, restrictedChecksAt(baseline, restricted, minor))
	}
	return s
}

// restrictedChecksAt returns the checks of the level restricted in version v1.minor: its own checks, and the
// checks of the level baseline that they do not replace.
func restrictedChecksAt(baseline, restricted []check, minor int) []checkFunc {
	replaced := map[string]bool{}
	for i := range restricted {
		if r := restricted[i].revisionAt(minor); r != nil {
			replaced[r.replaces] = true
		}
	}
	return append(checksAt(baseline, minor, replaced), checksAt(restricted, minor, nil)...)
}

// checksAt returns the checks that apply in version v1.minor, except those whose names are in without.
func checksAt(checks []check, minor int, without map[string]bool) []checkFunc {
	var found []checkFunc
	for i := range checks {
		if r := checks[i].revisionAt(minor); r != nil && !without[checks[i].name] {
			found = append(found, r.check)
		}
	}
	return found
}

// Evaluate returns the pod's violations of a level, or nil if the pod is allowed. It does not modify or retain
// the pod, and is safe for concurrent use.
func (s *Standards) Evaluate(level LevelVersion, pod Pod) Violations {
	var of [][]checkFunc
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
