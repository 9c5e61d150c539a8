package podsecurity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// procMount requires the container runtime's default masking of /proc.
func procMount(pod Pod) Violation {
	var by []string
	var mounts valueSet
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if mount := context.ProcMount; mount != nil && *mount != corev1.DefaultProcMount {
			by = append(by, c.Name)
			mounts.add(string(*mount))
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"procMount", fmt.Sprintf("%s must not set securityContext.procMount to %s", describeContainers(by), quoted(mounts.sorted()))}
}
