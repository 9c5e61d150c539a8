package podsecurity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// hostProbes forbids probes and lifecycle hooks that name a host, because the kubelet would connect to hosts
// other than the pod.
func hostProbes(pod Pod) Violation {
	var by, hosts valueSet
	pod.eachContainer(func(c *corev1.Container) {
		for _, probe := range [...]*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil && addHosts(&hosts, probe.HTTPGet, probe.TCPSocket) {
				by.add(c.Name)
			}
		}
		if c.Lifecycle == nil {
			return
		}
		for _, hook := range [...]*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if hook != nil && addHosts(&hosts, hook.HTTPGet, hook.TCPSocket) {
				by.add(c.Name)
			}
		}
	})
	if len(by) == 0 {
		return Violation{}
	}
	return Violation{"probe or lifecycle host", fmt.Sprintf("%s %s %s %s", describeContainers(by.sorted()), plural("uses", "use", len(by)),
		plural("probe or lifecycle host", "probe or lifecycle hosts", len(hosts)), quoted(hosts.sorted()))}
}

// addHosts adds the hosts that the actions name to hosts. It reports whether there are any.
func addHosts(hosts *valueSet, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) bool {
	names := false
	if get != nil && get.Host != "" {
		names = true
		hosts.add(get.Host)
	}
	if socket != nil && socket.Host != "" {
		names = true
		hosts.add(socket.Host)
	}
	return names
}
