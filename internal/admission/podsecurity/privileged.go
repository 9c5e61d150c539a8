package podsecurity

import corev1 "k8s.io/api/core/v1"

// privileged forbids privileged containers.
func privileged(pod Pod) Violation {
	var by []string
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if isTrue(context.Privileged) {
			by = append(by, c.Name)
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"privileged", describeContainers(by) + " must not set securityContext.privileged=true"}
}

func isTrue(b *bool) bool { return b != nil && *b }
