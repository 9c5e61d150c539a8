package podsecurity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// appArmorProfile forbids AppArmor profiles other than the default profile of the runtime and local profiles.
// It checks the fields and the older annotations.
func appArmorProfile(pod Pod) Violation {
	var by setters
	var profiles valueSet
	if profile := pod.podContext().AppArmorProfile; unconfined(profile) {
		by.pod = true
		profiles.add(string(profile.Type))
	}
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if unconfined(context.AppArmorProfile) {
			by.containers = append(by.containers, c.Name)
			profiles.add(string(context.AppArmorProfile.Type))
		}
	})
	annotations := forbiddenAppArmorAnnotations(pod.Annotations)
	if !by.any() && len(annotations) == 0 {
		return Violation{}
	}
	parts := by.parts()
	if len(annotations) > 0 {
		parts = append(parts, plural("annotation", "annotations", len(annotations)))
	}
	all := slices.Concat(profiles.sorted(), annotations)
	return Violation{
		plural("forbidden AppArmor profile", "forbidden AppArmor profiles", len(all)),
		fmt.Sprintf("%s must not set AppArmor profile type to %s", strings.Join(parts, " and "), quoted(all)),
	}
}

func unconfined(profile *corev1.AppArmorProfile) bool {
	return profile != nil && profile.Type != corev1.AppArmorProfileTypeRuntimeDefault && profile.Type != corev1.AppArmorProfileTypeLocalhost
}

// forbiddenAppArmorAnnotations returns the annotations that set forbidden profiles, in the form key="profile",
// sorted.
func forbiddenAppArmorAnnotations(annotations map[string]string) []string {
	var forbidden []string
	for key, profile := range annotations {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && profile != "" &&
			profile != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault && !strings.HasPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
			forbidden = append(forbidden, fmt.Sprintf("%s=%q", key, profile))
		}
	}
	slices.Sort(forbidden)
	return forbidden
}
