package podsecurity

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// seccompBaseline forbids the seccomp profile Unconfined.
func seccompBaseline(pod Pod) Violation {
	by, profiles, _ := seccompProfiles(pod)
	if !by.any() {
		return Violation{}
	}
	return Violation{seccompReason, mustNotSetSeccomp(&by, profiles)}
}

const seccompReason = "seccompProfile"

// seccompProfiles returns the parts of the pod that set forbidden profiles, the types of these profiles, and
// the containers that have neither their own profile nor an allowed profile of the pod.
func seccompProfiles(pod Pod) (by setters, profiles valueSet, without []string) {
	ofPod := pod.podContext().SeccompProfile
	if ofPod != nil && !isSeccompAllowed(ofPod) {
		by.pod = true
		profiles.add(string(ofPod.Type))
	}
	pod.eachContainer(func(c *corev1.Container) {
		switch {
		case c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil:
			if ofPod == nil || by.pod {
				without = append(without, c.Name)
			}
		case !isSeccompAllowed(c.SecurityContext.SeccompProfile):
			by.containers = append(by.containers, c.Name)
			profiles.add(string(c.SecurityContext.SeccompProfile.Type))
		}
	})
	return by, profiles, without
}

func isSeccompAllowed(profile *corev1.SeccompProfile) bool {
	return profile.Type == corev1.SeccompProfileTypeRuntimeDefault || profile.Type == corev1.SeccompProfileTypeLocalhost
}

func mustNotSetSeccomp(by *setters, profiles valueSet) string {
	return by.String() + " must not set securityContext.seccompProfile.type to " + quoted(profiles.sorted())
}

// seccompAnnotations forbids disallowed profiles in annotations. Before v1.19, pods used annotations instead
// of fields.
func seccompAnnotations(pod Pod) Violation {
	if len(pod.Annotations) == 0 {
		return Violation{}
	}
	var forbidden valueSet
	check := func(key string) {
		if profile, ok := pod.Annotations[key]; ok && profile != "runtime/default" && profile != "docker/default" && !strings.HasPrefix(profile, "localhost/") {
			forbidden.add(fmt.Sprintf("%s=%q", key, profile))
		}
	}
	check(corev1.SeccompPodAnnotationKey)
	pod.eachContainer(func(c *corev1.Container) { check(corev1.SeccompContainerAnnotationKeyPrefix + c.Name) })
	if len(forbidden) == 0 {
		return Violation{}
	}
	return Violation{seccompReason, "forbidden " + plural("annotation", "annotations", len(forbidden)) + " " + strings.Join(forbidden.sorted(), ", ")}
}
