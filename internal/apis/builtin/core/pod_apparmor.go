package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/request"
)

// syncAppArmor copies the AppArmor annotations of a new pod to the corresponding fields, because kubelets read
// only the fields. It adds a warning if a client sets an annotation without the field.
func syncAppArmor(op *builtin.Operation, pod *corev1.Pod) {
	if len(pod.Annotations) == 0 || pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows {
		return
	}
	var whole *corev1.AppArmorProfile
	if sc := pod.Spec.SecurityContext; sc != nil {
		whole = sc.AppArmorProfile
	}
	for _, containers := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			key := podspec.AppArmorContainer + containers[i].Name
			if text, ok := pod.Annotations[key]; ok && copyAppArmor(&containers[i], whole, podspec.AppArmorField(text)) {
				request.AddWarning(op.Context, fmt.Sprintf(`metadata.annotations[%s]: deprecated since v1.30; use the "appArmorProfile" field instead`, key))
			}
		}
	}
}

// copyAppArmor sets the AppArmor profile of a container to profile, which the annotation specifies. It does
// nothing if the container already has a profile or if profile equals whole, the profile of the pod. It
// reports whether it set the profile, or profile is nil because the annotation is invalid.
func copyAppArmor(c *corev1.Container, whole, profile *corev1.AppArmorProfile) (warn bool) {
	switch {
	case profile == nil:
		return true
	case c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil, equality.Semantic.DeepEqual(profile, whole):
		return false
	}
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	c.SecurityContext.AppArmorProfile = profile
	return true
}
