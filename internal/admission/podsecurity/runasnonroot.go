package podsecurity

import corev1 "k8s.io/api/core/v1"

// runAsNonRoot requires runAsNonRoot in the pod or in all containers.
func runAsNonRoot(pod Pod) Violation {
	var by setters
	var silent []string
	ofPod := pod.podContext().RunAsNonRoot
	by.pod = ofPod != nil && !*ofPod
	pod.eachContainer(func(c *corev1.Container) {
		switch {
		case c.SecurityContext == nil || c.SecurityContext.RunAsNonRoot == nil:
			if !isTrue(ofPod) {
				silent = append(silent, c.Name)
			}
		case !*c.SecurityContext.RunAsNonRoot:
			by.containers = append(by.containers, c.Name)
		}
	})
	const reason = "runAsNonRoot != true"
	switch {
	case by.any():
		return Violation{reason, by.String() + " must not set securityContext.runAsNonRoot=false"}
	case len(silent) > 0:
		return Violation{reason, "pod or " + describeContainers(silent) + " must set securityContext.runAsNonRoot=true"}
	}
	return Violation{}
}
