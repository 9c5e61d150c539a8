package podsecurity

import "strings"

// hostNamespaces forbids using the host's network, PID and IPC namespaces.
func hostNamespaces(pod Pod) Violation {
	var shared []string
	if pod.Spec.HostNetwork {
		shared = append(shared, "hostNetwork=true")
	}
	if pod.Spec.HostPID {
		shared = append(shared, "hostPID=true")
	}
	if pod.Spec.HostIPC {
		shared = append(shared, "hostIPC=true")
	}
	if len(shared) == 0 {
		return Violation{}
	}
	return Violation{"host namespaces", strings.Join(shared, ", ")}
}
