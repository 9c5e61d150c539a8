package podsecurity

import corev1 "k8s.io/api/core/v1"

// windowsHostProcess forbids Windows host processes.
func windowsHostProcess(pod Pod) Violation {
	by := setters{pod: isHostProcess(pod.podContext().WindowsOptions)}
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if isHostProcess(context.WindowsOptions) {
			by.containers = append(by.containers, c.Name)
		}
	})
	if !by.any() {
		return Violation{}
	}
	return Violation{"hostProcess", by.String() + " must not set securityContext.windowsOptions.hostProcess=true"}
}

func isHostProcess(options *corev1.WindowsSecurityContextOptions) bool {
	return options != nil && isTrue(options.HostProcess)
}
