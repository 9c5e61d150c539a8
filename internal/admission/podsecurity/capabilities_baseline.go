package podsecurity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// capabilitiesBaseline restricts added capabilities to those of the runtime's default.
func capabilitiesBaseline(pod Pod) Violation {
	var by []string
	var capabilities values
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if addsOther(context.Capabilities, isDefaultCapability, &capabilities) {
			by = append(by, c.Name)
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"non-default capabilities", mustNotAdd(by, capabilities)}
}

// isDefaultCapability reports whether runtimes give containers a capability. They give
// NET_RAW, too, but it is not allowed to ask for it.
func isDefaultCapability(c corev1.Capability) bool {
	switch c {
	case "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
		"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT":
		return true
	}
	return false
}

// addsOther reports whether capabilities are added that are not allowed, and collects
// them.
func addsOther(of *corev1.Capabilities, allowed func(corev1.Capability) bool, found *values) bool {
	if of == nil {
		return false
	}
	adds := false
	for _, c := range of.Add {
		if !allowed(c) {
			adds = true
			found.add(string(c))
		}
	}
	return adds
}

func mustNotAdd(by []string, capabilities values) string {
	return fmt.Sprintf("%s must not include %s in securityContext.capabilities.add", theContainers(by), quoted(capabilities))
}
