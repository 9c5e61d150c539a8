package podsecurity

import corev1 "k8s.io/api/core/v1"

// runAsUser forbids the user ID 0.
func runAsUser(pod Pod) Violation {
	by := setters{pod: isRoot(pod.podContext().RunAsUser)}
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if isRoot(context.RunAsUser) {
			by.containers = append(by.containers, c.Name)
		}
	})
	if !by.any() {
		return Violation{}
	}
	return Violation{"runAsUser=0", by.String() + " must not set runAsUser=0"}
}

func isRoot(user *int64) bool { return user != nil && *user == 0 }
