package podsecurity

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// capabilitiesRestricted requires that containers drop all capabilities. They may add
// NET_BIND_SERVICE.
func capabilitiesRestricted(pod Pod) Violation {
	var keeping, adding []string
	var capabilities valueSet
	pod.eachContainer(func(c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil {
			keeping = append(keeping, c.Name)
			return
		}
		own := c.SecurityContext.Capabilities
		if !slices.Contains(own.Drop, "ALL") {
			keeping = append(keeping, c.Name)
		}
		if addsDisallowed(own, isNetBindService, &capabilities) {
			adding = append(adding, c.Name)
		}
	})
	var details []string
	if len(keeping) > 0 {
		details = append(details, describeContainers(keeping)+` must set securityContext.capabilities.drop=["ALL"]`)
	}
	if len(adding) > 0 {
		details = append(details, mustNotAdd(adding, capabilities))
	}
	if len(details) == 0 {
		return Violation{}
	}
	return Violation{"unrestricted capabilities", strings.Join(details, "; ")}
}

func isNetBindService(c corev1.Capability) bool { return c == "NET_BIND_SERVICE" }
