package podsecurity

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// hostPorts forbids host ports.
func hostPorts(pod Pod) Violation {
	var by []string
	var ports valueSet
	pod.eachContainer(func(c *corev1.Container) {
		takes := false
		for i := range c.Ports {
			if port := c.Ports[i].HostPort; port != 0 {
				takes = true
				ports.add(strconv.Itoa(int(port)))
			}
		}
		if takes {
			by = append(by, c.Name)
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"hostPort", fmt.Sprintf("%s %s %s %s", describeContainers(by), plural("uses", "use", len(by)),
		plural("hostPort", "hostPorts", len(ports)), strings.Join(ports.sorted(), ", "))}
}
