package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/podspec"
	"mainstay.dev/mainstay/internal/request"
)

// syncAppArmor copies to the fields of a new pod what its annotations say of
// AppArmor: kubelets look at the fields alone. Who sent an annotation without the
// field is warned.
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

// copyAppArmor sets the profile of a container that has none, where that is not the
// one of the whole pod. It reports whether the annotation alone has said so, or has
// said nothing that is valid.
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
