package podsecurity

import corev1 "k8s.io/api/core/v1"

// privilegeEscalation requires allowPrivilegeEscalation to be false in all containers.
func privilegeEscalation(pod Pod) Violation {
	var by []string
	pod.eachContainer(func(c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation {
			by = append(by, c.Name)
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"allowPrivilegeEscalation != false", describeContainers(by) + " must set securityContext.allowPrivilegeEscalation=false"}
}
