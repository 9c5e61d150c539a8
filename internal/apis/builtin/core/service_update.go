package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func prepareService(_ *builtin.Operation, service *corev1.Service) {
	if service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP} // older clients set only clusterIP
	}
	defaultFamilyPolicy(service, nil)
}

// prepareServiceUpdate copies allocated values that the client omitted from old. If the type has changed, it
// clears the fields that only the old type uses.
func prepareServiceUpdate(_ *builtin.Operation, service, old *corev1.Service) {
	keepClusterIPs(service, old)
	keepNodePorts(service, old)
	if needsHealthCheckPort(service) && needsHealthCheckPort(old) && service.Spec.HealthCheckNodePort == 0 {
		service.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
	alignClusterIPs(service, old)
	dropForType(service, old)
	defaultFamilyPolicy(service, old)
	dropSecondFamily(&service.Spec, &old.Spec)
	if isLoadBalancer(old) && !isLoadBalancer(service) {
		service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func isLoadBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// needsClusterIP reports whether services of this type have cluster IPs.
func needsClusterIP(service *corev1.Service) bool {
	switch service.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	}
	return false
}

// hasNodePorts reports whether services of this type may have node ports. needsNodePorts reports whether all
// ports of the service must have a node port.
func hasNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

func needsNodePorts(spec *corev1.ServiceSpec) bool {
	allocate := spec.AllocateLoadBalancerNodePorts
	return hasNodePorts(spec) && (spec.Type == corev1.ServiceTypeNodePort || allocate == nil || *allocate)
}

func needsHealthCheckPort(service *corev1.Service) bool {
	return isLoadBalancer(service) && service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// isExternal reports whether a service can be reached from outside the cluster, so that its
// external traffic policy has an effect.
func isExternal(service *corev1.Service) bool {
	switch service.Spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(service.Spec.ExternalIPs) > 0
	}
	return false
}

func keepClusterIPs(service, old *corev1.Service) {
	if !needsClusterIP(service) || !needsClusterIP(old) {
		return
	}
	if service.Spec.ClusterIP == "" {
		service.Spec.ClusterIP = old.Spec.ClusterIP
	}
	if len(service.Spec.ClusterIPs) == 0 && service.Spec.ClusterIP == old.Spec.ClusterIP {
		service.Spec.ClusterIPs = old.Spec.ClusterIPs
	}
}

// keepNodePorts sets missing node ports to the node ports of the old service ports with the same name, unless
// another port of the service uses them.
func keepNodePorts(service, old *corev1.Service) {
	if !hasNodePorts(&service.Spec) || !hasNodePorts(&old.Spec) {
		return
	}
	before, taken := map[string]int32{}, map[int32]bool{}
	for i := range old.Spec.Ports {
		before[old.Spec.Ports[i].Name] = old.Spec.Ports[i].NodePort
	}
	for i := range service.Spec.Ports {
		taken[service.Spec.Ports[i].NodePort] = true
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if nodePort := before[port.Name]; port.NodePort == 0 && nodePort != 0 && !taken[nodePort] {
			port.NodePort = nodePort
			taken[nodePort] = true
		}
	}
}

// alignClusterIPs applies a change of clusterIP to clusterIPs, for clients that set only clusterIP.
func alignClusterIPs(service, old *corev1.Service) {
	if service.Spec.ClusterIP == old.Spec.ClusterIP {
		if len(service.Spec.ClusterIPs) == 0 {
			service.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
		return
	}
	if !slices.Equal(service.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		return // the client has changed both fields
	}
	service.Spec.ClusterIPs = nil
	if service.Spec.ClusterIP != "" {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP}
	}
}

// dropForType clears the fields that only the old type uses, unless the client has changed them. Validation
// rejects fields that the client has changed.
func dropForType(service, old *corev1.Service) {
	spec, before := &service.Spec, &old.Spec
	if needsClusterIP(old) && !needsClusterIP(service) {
		if spec.ClusterIP == before.ClusterIP && slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, before.IPFamilies) {
			spec.IPFamilies = nil
		}
		spec.IPFamilyPolicy = unlessSame(spec.IPFamilyPolicy, before.IPFamilyPolicy)
		spec.InternalTrafficPolicy = unlessSame(spec.InternalTrafficPolicy, before.InternalTrafficPolicy)
	}
	if hasNodePorts(before) && !hasNodePorts(spec) && slices.Equal(nodePorts(service), nodePorts(old)) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if needsHealthCheckPort(old) && !needsHealthCheckPort(service) && spec.HealthCheckNodePort == before.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if isLoadBalancer(old) && !isLoadBalancer(service) {
		spec.AllocateLoadBalancerNodePorts = unlessSame(spec.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts)
		spec.LoadBalancerClass = unlessSame(spec.LoadBalancerClass, before.LoadBalancerClass)
	}
	if isExternal(old) && !isExternal(service) && spec.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
}

// unlessSame returns value, or nil if *value equals *old.
func unlessSame[T comparable](value, old *T) *T {
	if value != nil && old != nil && *value == *old {
		return nil
	}
	return value
}

// nodePorts returns the distinct node ports of a service, sorted.
func nodePorts(service *corev1.Service) []int32 {
	var ports []int32
	for i := range service.Spec.Ports {
		ports = append(ports, service.Spec.Ports[i].NodePort)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
