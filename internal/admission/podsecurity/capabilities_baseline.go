package podsecurity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// capabilitiesBaseline forbids adding capabilities that container runtimes do not grant by default.
func capabilitiesBaseline(pod Pod) Violation {
	var by []string
	var capabilities valueSet
	pod.eachSecurityContext(func(c *corev1.Container, context *corev1.SecurityContext) {
		if addsDisallowed(context.Capabilities, isDefaultCapability, &capabilities) {
			by = append(by, c.Name)
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"non-default capabilities", mustNotAdd(by, capabilities)}
}

// isDefaultCapability reports whether pods may add a capability. Runtimes also grant NET_RAW by
// default, but the standards do not allow pods to add it.
func isDefaultCapability(c corev1.Capability) bool {
	switch c {
	case "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
		"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT":
		return true
	}
	return false
}

// addsDisallowed reports whether disallowed capabilities are added, and collects them in found.
func addsDisallowed(of *corev1.Capabilities, allowed func(corev1.Capability) bool, found *valueSet) bool {
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

func mustNotAdd(by []string, capabilities valueSet) string {
	return fmt.Sprintf("%s must not include %s in securityContext.capabilities.add", describeContainers(by), quoted(capabilities.sorted()))
}
